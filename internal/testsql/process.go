// Package testsql starts the database servers that the tests need: each in a temporary folder and
// on a free port, so that tests neither need nor disturb a server of the machine.
// Its users import the drivers: pgx/v5/stdlib and go-sql-driver/mysql.
package testsql

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// start starts a program as the user of servers.
func start(path string, args ...string) (*testprocess.Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = "/", attributes()
	return testprocess.Start(cmd)
}

// makeData runs a program as the user of servers that makes the data of a server.
func makeData(dir, path string, args ...string) error {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.SysProcAttr = dir, attributes()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("testsql: %s: %w\n%s", path, err, out)
	}
	return nil
}

// awaitSQL waits until a server executes a statement.
func awaitSQL(p *testprocess.Process, driver, dsn, statement string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return p.Await(func() error {
		_, err := db.Exec(statement)
		return err
	})
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
	return "", &testprocess.MissingError{Server: server, Program: name}
}

// freePort returns a TCP port that nobody listens on.
func freePort() (int, error) {
	ports, err := testproxy.FreePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}

// Proxy is a proxy to a server, with the name of the database by way of it.
type Proxy struct {
	*testproxy.Proxy
	dsn func(addr string, params []string) string
}

func newProxy(network, target string, dsn func(addr string, params []string) string) (*Proxy, error) {
	p, err := testproxy.New(network, target)
	return &Proxy{p, dsn}, err
}

// DSN is that of the server, by way of the proxy.
func (p *Proxy) DSN(params ...string) string { return p.dsn(p.Addr(), params) }
