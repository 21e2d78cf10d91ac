"""Lists the faults: what each does to the installation, what undoes it, and how often it happens."""

import random

from tests.chaos import clock as wall_clock
from tests.chaos.clock_faults import ClockFaults
from tests.chaos.host_faults import HostFaults
from tests.chaos.installation import Installation
from tests.chaos.network_faults import NetworkFaults
from tests.chaos.process_faults import ProcessFaults
from tests.chaos.set_back_faults import SetBackFaults
from tests.chaos.targets import Fault, Targets


class Faults:
    """Each fault by its name, with its weight."""

    def __init__(self, site: Installation, rng: random.Random) -> None:
        targets = Targets(site, rng)
        process, host = ProcessFaults(targets), HostFaults(targets)
        network, clock, set_back = NetworkFaults(targets), ClockFaults(targets), SetBackFaults(targets)
        self.all: dict[str, tuple[float, Fault]] = {
            "kill server": (2, process.kill_server),
            "kill runner": (3, process.kill_runner),
            "kill executor": (4, lambda: process.kill("executor")),
            "kill engine": (4, lambda: process.kill("engine")),
            "kill zygote": (2, lambda: process.kill("zygote")),
            "reboot host": (4, host.reboot),
            "replace host": (2, host.replace),
            "shut down host": (3, host.shut_down),
            "deliver late": (3, host.deliver_late),
            "return disk": (1, host.return_disk),
            "stop server": (1, process.stop_server),
            "stop runner": (2, lambda: process.pause("runner")),
            "stop executor": (3, lambda: process.pause("executor")),
            "stop engine": (2, lambda: process.pause("engine")),
            "stop zygote": (1, lambda: process.pause("zygote")),
            "stop host": (3, process.pause_host),
            "term runner": (2, process.term_runner),
            "term server": (1, process.term_server),
            "partition, held": (4, lambda: network.partition("hold", "all", "both")),
            "partition, closed": (2, lambda: network.partition("closed", "all", "both")),
            "partition, runner only": (2, lambda: network.partition("hold", "runner", "both")),
            "partition, executors only": (2, lambda: network.partition("hold", "executors", "both")),
            "partition, one way": (2, lambda: network.partition("hold", "all", rng.choice(["up", "down"]))),
            "proxy refuses": (3, network.refuse),
            "clock of a host jumps": (2, lambda: clock.jump(list(site.runners))),
            "clock of a server jumps": (1, lambda: clock.jump(list(site.servers))),
        }
        if site.small_disks:
            self.all["full disk"] = 2, network.fill_disk
        if not site.postgres:
            self.all["restore to a moment ago"] = 1, set_back.restore
        else:
            self.all["fail over to a lagging replica"] = 1, set_back.fail_over
            self.all["database restart, fast"] = 1, lambda: process.database(is_immediate=False, seconds=0)
            self.all["database restart, immediate"] = 1, lambda: process.database(is_immediate=True, seconds=0)
            away = lambda: process.database(is_immediate=False, seconds=targets.seconds(3, 40))  # noqa: E731
            self.all["database away"] = 1, away
            if wall_clock.library():
                self.all["clock of the database jumps"] = 1, lambda: clock.jump(["postgres"])
