// Package testsql starts the database servers that the tests need: each in a temporary folder and
// on a free port, so that tests neither need nor disturb a server of the machine.
// Its users import the drivers: pgx/v5/stdlib and go-sql-driver/mysql.
package testsql

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// process is a running program with its output.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	exited chan struct{} // closed after the program has exited
}

// start starts a program as the user of servers.
func start(path string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.Dir = "/"
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the error of a killed program is expected
		close(p.exited)
	}()
	return p, nil
}

// signal sends a signal to the program.
func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// serverUser returns the ids of the user that servers run as if it is another one than the own.
// Database servers refuse to run as root.
func serverUser() (uid, gid int, other bool) {
	if os.Geteuid() != 0 {
		return 0, 0, false
	}
	for _, name := range []string{"postgres", "mysql", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			return uid, gid, true
		}
	}
	return 0, 0, false
}

// attributes returns those of the process of a server.
func attributes() *syscall.SysProcAttr {
	if uid, gid, other := serverUser(); other {
		return testprocess.As(uid, gid)
	}
	return testprocess.Detached()
}

// folder makes a temporary folder that belongs to the user of servers.
func folder() (string, error) {
	path, err := os.MkdirTemp("", "testsql")
	if err != nil {
		return "", err
	}
	return path, give(path)
}

// give gives a file to the user of servers.
func give(path string) error {
	uid, gid, other := serverUser()
	if !other {
		return nil
	}
	return os.Chown(path, uid, gid)
}

// find returns the path of a program of a server, in PATH or in one of some folders, which may be
// patterns. Of several, it takes the last.
func find(server, name string, folders ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, f := range folders {
		if paths, err := filepath.Glob(filepath.Join(f, name)); err == nil && len(paths) > 0 {
			return paths[len(paths)-1], nil
		}
	}
	return "", &MissingError{server, name}
}

// MissingError says that a program of a server is not installed.
type MissingError struct{ Server, Program string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("testsql: %s is not installed; make setup-stores installs it", e.Program)
}

// freePort returns a TCP port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// lockedBuffer is a bytes.Buffer for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
