# A migration that talks a lot: something for the live log. It runs anew each time.

variable "tables" {
  type    = number
  default = 30
}

resource "terraform_data" "migration" {
  triggers_replace = timestamp()

  provisioner "local-exec" {
    command = <<-SHELL
      table=1
      while [ "$table" -le ${var.tables} ]; do
        printf '\033[1mtable %02d of ${var.tables}\033[0m\n' "$table"
        row=1
        while [ "$row" -le 100 ]; do
          printf 'table %02d: copied rows %5d to %5d, checksum ok\n' "$table" "$((row * 1000 - 999))" "$((row * 1000))"
          row=$((row + 1))
        done
        sleep 0.03
        table=$((table + 1))
      done
      printf '\033[32mall ${var.tables} tables are copied\033[0m\n'
    SHELL
  }
}

output "rows" {
  value = var.tables * 100000
}
