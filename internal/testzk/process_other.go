//go:build !linux

package testzk

import "os/exec"

// detach does nothing on this system.
func detach(*exec.Cmd) {}
