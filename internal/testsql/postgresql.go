// A PostgreSQL server.

package testsql

import (
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// startTime is how long a server may take to start on a busy machine.
const startTime = 60 * time.Second

// Postgres is a PostgreSQL server with an empty database.
type Postgres struct {
	path, dir string
	port      int
	args      []string
	process   *process
}

// LaunchPostgres starts a server. Further arguments are settings, such as "fsync=on".
func LaunchPostgres(settings ...string) (*Postgres, error) {
	path, err := find("PostgreSQL", "postgres", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
	if err != nil {
		return nil, err
	}
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	p := &Postgres{path: path, dir: dir}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(filepath.Dir(path), "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = "/", attributes()
	if out, err := initdb.CombinedOutput(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("testsql: initdb: %w\n%s", err, out)
	}
	// A killed process loses nothing that the kernel has, so tests need no fsync.
	p.args = []string{"-D", data, "-p", strconv.Itoa(p.port), "-k", dir}
	for _, s := range append([]string{"listen_addresses=127.0.0.1", "fsync=off", "max_connections=400", "shared_buffers=32MB"}, settings...) {
		p.args = append(p.args, "-c", s)
	}
	if err := p.Start(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Start starts the server again after Kill, and waits until it answers.
func (p *Postgres) Start() (err error) {
	if p.process, err = start(p.path, p.args...); err != nil {
		return err
	}
	db, err := sql.Open("pgx", p.DSN())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return nil
		}
		if p.process.hasExited() {
			break
		}
	}
	return fmt.Errorf("testsql: postgres does not answer: %w\n%s", err, p.process.output.String())
}

// Addr returns the TCP address of the server.
func (p *Postgres) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// DSN returns the URL of the database. Further arguments are added to it, such as
// "default_query_exec_mode=exec".
func (p *Postgres) DSN(params ...string) string { return postgresDSN(p.Addr(), params) }

// Proxy starts a proxy to the server, which must be closed.
func (p *Postgres) Proxy() (*Proxy, error) { return newProxy("tcp", p.Addr(), postgresDSN) }

func postgresDSN(addr string, params []string) string {
	text := "postgres://postgres@" + addr + "/postgres?sslmode=disable"
	for _, param := range params {
		text += "&" + param
	}
	return text
}

// Kill ends all processes of the server at once, as a crash does. Start recovers it.
func (p *Postgres) Kill() {
	// The processes of sessions have sessions of their own, so the group is not enough: without
	// the postmaster they end by themselves.
	p.process.signal(os.Kill)
	<-p.process.exited
	pid := filepath.Join(p.dir, "data", "postmaster.pid")
	for end := time.Now().Add(startTime); time.Now().Before(end) && len(p.sessions()) > 0; time.Sleep(10 * time.Millisecond) {
		for _, s := range p.sessions() {
			signalTo(s, os.Kill)
		}
	}
	_ = os.Remove(pid)
}

// Pause stops all processes of the server, and Continue continues them.
func (p *Postgres) Pause() { p.signalAll(testprocess.Stop) }

// Continue continues the server after Pause.
func (p *Postgres) Continue() { p.signalAll(testprocess.Continue) }

func (p *Postgres) signalAll(s os.Signal) {
	p.process.signal(s)
	for _, pid := range p.sessions() {
		signalTo(pid, s)
	}
}

func signalTo(pid int, s os.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Signal(s) // it may have ended
	}
}

// Close ends the server and removes its folder.
func (p *Postgres) Close() {
	if p.process != nil {
		p.Continue()
		p.Kill()
	}
	_ = os.RemoveAll(p.dir)
}
