// The servers that keep locks on disk. They take long to start, so rounds use them one
// after another.

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
)

// spares are servers that no round uses.
var spares struct {
	mu   sync.Mutex // guards all below
	free map[string][]*database
	all  []*database
}

// spareServers returns a server of a kind that no other round uses.
func spareServers(kind string) (servers, error) {
	spares.mu.Lock()
	if free := spares.free[kind]; len(free) > 0 {
		defer spares.mu.Unlock()
		spares.free[kind] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	spares.mu.Unlock()
	start := map[string]func() (*database, error){postgresServer: startPostgres, etcdServer: startEtcd, zooKeeperServer: startZooKeeper}[kind]
	d, err := start()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	d.kind = kind
	spares.mu.Lock()
	defer spares.mu.Unlock()
	spares.all = append(spares.all, d)
	return d, nil
}

// endSpares ends all servers.
func endSpares() {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	for _, d := range spares.all {
		d.end()
	}
	spares.all, spares.free = nil, nil
}

// database is one server.
type database struct {
	kind   string
	addr   string
	signal func(s syscall.Signal) error
	end    func()
}

func (d *database) addrs() []string { return []string{d.addr} }
func (d *database) hang() error     { return d.signal(testprocess.Stop) }
func (d *database) resume() error   { return d.signal(testprocess.Continue) }

var errKeeps = errors.New("the server keeps its locks on disk")

func (*database) restart() error                    { return errKeeps }
func (*database) loseReplica(context.Context) error { return errKeeps }
func (*database) failOver() (string, error)         { return "", errKeeps }

// left is only for Redis.
func (*database) left(context.Context, string) (map[string]time.Duration, error) { return nil, nil }

func (d *database) close() {
	spares.mu.Lock()
	defer spares.mu.Unlock()
	if spares.free == nil {
		spares.free = map[string][]*database{}
	}
	spares.free[d.kind] = append(spares.free[d.kind], d)
}

func startPostgres() (*database, error) {
	p, err := testsql.LaunchPostgres()
	if err != nil {
		return nil, err
	}
	d := &database{addr: p.Addr(), end: p.Close, signal: func(s syscall.Signal) error {
		if s == testprocess.Stop {
			p.Pause()
		} else {
			p.Continue()
		}
		return nil
	}}
	db, err := sql.Open("pgx", p.DSN())
	if err == nil {
		err = errors.Join(sqlstore.CreateSchema(context.Background(), db, sqlstore.PostgreSQL(), nil), db.Close())
	}
	if err != nil {
		p.Close()
	}
	return d, err
}

func startZooKeeper() (*database, error) {
	members, err := testzk.Launch(1)
	if err != nil {
		return nil, err
	}
	return &database{addr: members[0].Address, end: func() { testzk.Close(members) }, signal: func(s syscall.Signal) error {
		return members[0].Process().Signal(s)
	}}, nil
}

// startEtcd runs the program of the tests of lock/etcdstore, which has a module of its own.
func startEtcd() (*database, error) {
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
	return &database{addr: addr, end: end, signal: func(s syscall.Signal) error { return cmd.Process.Signal(s) }}, nil
}

// etcdProgram builds the program once.
func etcdProgram() (string, error) {
	p := preparing["etcd"]
	p.once.Do(func() {
		module, err := source("..", "lock", "etcdstore", "check")
		if err != nil {
			p.err = err
			return
		}
		base, err := os.UserCacheDir()
		if err != nil {
			p.err = err
			return
		}
		p.dir = filepath.Join(base, "leasewheel", "compare", "etcd")
		p.err = runIn(module, "go", "build", "-o", p.dir, "./etcd")
	})
	return p.dir, p.err
}
