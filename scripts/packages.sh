# Functions for the scripts that install packages of Debian. They read the array `missing`.

root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

# The tests start their own processes: a package that brings a service must not start it, now or at the next boot.
policy=/usr/sbin/policy-rc.d
forbid_services() {
  [ -e "$policy" ] && return
  printf '#!/bin/sh\nexit 101\n' | root tee "$policy" >/dev/null
  root chmod 755 "$policy"
  trap 'root rm -f "$policy"' EXIT
}
disable_services() {
  local package
  for package in "${missing[@]}"; do
    case $package in
    nginx-light) root systemctl --quiet disable nginx ;;
    caddy) root systemctl --quiet disable caddy ;;
    openssh-server) root systemctl --quiet disable ssh ;;
    docker.io) root systemctl --quiet disable docker.service docker.socket containerd.service ;;
    containerd) root systemctl --quiet disable containerd.service ;;
    esac 2>/dev/null || true
  done
}

install() {
  command -v apt-get >/dev/null && root true 2>/dev/null || return 1
  forbid_services
  echo "installing $* (apt-get)" >&2
  root apt-get update -qq && root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}
