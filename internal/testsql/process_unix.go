//go:build unix

package testsql

import "syscall"

// The signals that make a process stand still and go on.
const (
	stop = syscall.SIGSTOP
	cont = syscall.SIGCONT
)

// credential returns the credential of serverUser, nil for the own one.
func credential() *syscall.Credential {
	uid, gid, other := serverUser()
	if !other {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
