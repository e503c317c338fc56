// The start of the servers that keep locks on disk.

package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

func startPostgres() (*servers, error) {
	p, err := testsql.LaunchPostgres()
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", p.DSN())
	if err == nil {
		err = errors.Join(sqlstore.CreateSchema(context.Background(), db, sqlstore.PostgreSQL(), nil), db.Close())
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	after := func(f func()) func() error {
		return func() error {
			f()
			return nil
		}
	}
	return &servers{addrs: []string{p.Addr()}, hang: after(p.Pause), resume: after(p.Continue), end: p.Close}, nil
}

// oneProcess returns a server that hangs while its process is stopped.
func oneProcess(addr string, p *os.Process, end func()) *servers {
	signal := func(s syscall.Signal) func() error { return func() error { return p.Signal(s) } }
	return &servers{addrs: []string{addr}, hang: signal(testprocess.Stop), resume: signal(testprocess.Continue), end: end}
}

func startZooKeeper() (*servers, error) {
	members, err := testzk.Launch(1)
	if err != nil {
		return nil, err
	}
	return oneProcess(members[0].Address, members[0].Process(), func() { testzk.Close(members) }), nil
}

// startEtcd runs the program of the tests of lock/etcdstore, which has a module of its own.
func startEtcd() (*servers, error) {
	program, err := etcdProgram()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "compare-etcd")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, dir)
	if _, err := cmd.StdinPipe(); err != nil { // its end ends the server
		return nil, err
	}
	p, err := testprocess.Start(cmd)
	if err != nil {
		return nil, err
	}
	end := func() {
		p.Kill()
		_ = os.RemoveAll(dir)
	}
	var addr string
	err = p.Await(func() error {
		line, _, found := strings.Cut(p.Output(), "\n")
		if !found {
			return errors.New("it has not written its address")
		}
		addr = line
		return nil
	})
	if err != nil {
		end()
		return nil, err
	}
	return oneProcess(addr, cmd.Process, end), nil
}

// etcdProgram builds the program once.
var etcdProgram = sync.OnceValues(func() (string, error) {
	path, err := cached("etcd")
	if err != nil {
		return "", err
	}
	return path, runIn(filepath.Join("..", "..", "lock", "etcdstore", "check"), "go", "build", "-o", path, "./etcd")
})
