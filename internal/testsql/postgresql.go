// A PostgreSQL server.

package testsql

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// endTime is how long the processes of sessions may take to end on a busy machine.
const endTime = 60 * time.Second

// Postgres is a PostgreSQL server with an empty database.
type Postgres struct {
	path, dir string
	port      int
	settings  []string
	process   *testprocess.Process
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
	p := &Postgres{path: path, dir: dir, settings: append([]string{"listen_addresses=127.0.0.1", "fsync=off", "max_connections=400", "shared_buffers=32MB"}, settings...)}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	err = makeData("/", filepath.Join(filepath.Dir(path), "initdb"), "-D", p.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// Standby starts a hot standby of the server, which starts again for that. It follows the server by way of an address,
// which may be that of a proxy. Its name for synchronous_standby_names is "standby", and pg_promote promotes it.
func (p *Postgres) Standby(address string) (*Postgres, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	s := &Postgres{path: p.path, dir: dir}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	s.settings = append(slices.Clone(p.settings), fmt.Sprintf("primary_conninfo=host=%s port=%s user=postgres application_name=standby", host, port))
	p.Kill() // the files of a server that has ended are a base backup
	if out, err := exec.Command("cp", "-a", p.data(), s.data()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("testsql: cp: %w\n%s", err, out)
	}
	signal := filepath.Join(s.data(), "standby.signal")
	if err := os.WriteFile(signal, nil, 0o600); err != nil {
		return nil, err
	}
	err = give(signal)
	if err == nil {
		err = p.Start()
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Start starts the server again after Kill, and waits until it answers.
func (p *Postgres) Start() (err error) {
	// A killed process loses nothing that the kernel has, so tests need no fsync.
	args := []string{"-D", p.data(), "-p", strconv.Itoa(p.port), "-k", p.dir}
	for _, s := range p.settings {
		args = append(args, "-c", s)
	}
	if p.process, err = start(p.path, args...); err != nil {
		return err
	}
	return awaitSQL(p.process, "pgx", p.DSN(), "SELECT 1")
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
	p.process.Kill()
	pid := filepath.Join(p.data(), "postmaster.pid")
	for end := time.Now().Add(endTime); time.Now().Before(end) && len(p.sessions()) > 0; time.Sleep(10 * time.Millisecond) {
		for _, s := range p.sessions() {
			signalTo(s, os.Kill)
		}
	}
	_ = os.Remove(pid)
}

// sessions returns the children of the postmaster, also after its end. Their working directory
// is the data folder. Only Linux shows that; elsewhere sessions end soon after their postmaster.
func (p *Postgres) sessions() []int {
	var pids []int
	data := p.data()
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == data {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil && pid != p.process.Cmd.Process.Pid {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// Pause stops all processes of the server, and Continue continues them.
func (p *Postgres) Pause() { p.signalAll(testprocess.Stop) }

// Continue continues the server after Pause.
func (p *Postgres) Continue() { p.signalAll(testprocess.Continue) }

func (p *Postgres) signalAll(s os.Signal) {
	_ = p.process.Cmd.Process.Signal(s)
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
