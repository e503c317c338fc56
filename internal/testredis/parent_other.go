//go:build !linux

package testredis

import "os/exec"

// endWithParent does nothing: only Linux ends a process with its parent.
func endWithParent(*exec.Cmd) {}
