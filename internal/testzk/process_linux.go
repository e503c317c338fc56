package testzk

import (
	"os/exec"
	"syscall"
)

// detach lets the process end with this one, and keeps the signals of the terminal from it.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
