// This file is about a MariaDB server.

package testsql

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// MariaDB is a MariaDB server with an empty database, which listens on a socket only.
type MariaDB struct {
	path, dir string
	args      []string
	process   *process
}

// LaunchMariaDB starts a server. Further arguments are settings, such as
// "innodb-snapshot-isolation=ON".
func LaunchMariaDB(settings ...string) (*MariaDB, error) {
	path, err := find("MariaDB", "mariadbd", "/usr/sbin", "/usr/libexec", "/opt/homebrew/opt/mariadb/bin")
	if err != nil {
		return nil, err
	}
	install, err := find("MariaDB", "mariadb-install-db", filepath.Dir(path), filepath.Join(filepath.Dir(path), "../bin"))
	if err != nil {
		return nil, err
	}
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	m := &MariaDB{path: path, dir: dir}
	command := exec.Command(install, "--no-defaults", "--datadir="+m.data(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--innodb-log-file-size=8M", "--tmpdir="+dir)
	command.Dir, command.SysProcAttr = dir, attributes()
	if out, err := command.CombinedOutput(); err != nil {
		m.Close()
		return nil, fmt.Errorf("testsql: mariadb-install-db: %w\n%s", err, out)
	}
	// A killed process loses nothing that the kernel has, so tests need no flush at each commit.
	m.args = []string{
		"--no-defaults", "--datadir=" + m.data(), "--tmpdir=" + dir, "--socket=" + m.socket(), "--skip-networking",
		"--pid-file=" + filepath.Join(dir, "pid"), "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M",
		"--innodb-flush-log-at-trx-commit=2", "--max-connections=500",
	}
	for _, s := range settings {
		m.args = append(m.args, "--"+s)
	}
	if err := m.Start(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func (m *MariaDB) data() string   { return filepath.Join(m.dir, "data") }
func (m *MariaDB) socket() string { return filepath.Join(m.dir, "socket") }

// Start starts the server again after Kill, and waits until it answers.
func (m *MariaDB) Start() (err error) {
	if m.process, err = start(m.path, m.args...); err != nil {
		return err
	}
	db, err := sql.Open("mysql", "root@unix("+m.socket()+")/")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, err = db.Exec("CREATE DATABASE IF NOT EXISTS test"); err == nil {
			return nil
		}
		if m.process.hasExited() {
			break
		}
	}
	return fmt.Errorf("testsql: mariadbd does not answer: %w\n%s", err, m.process.output.String())
}

// DSN returns the name of the database for the driver. Further arguments are parameters, such as
// "interpolateParams=true".
func (m *MariaDB) DSN(params ...string) string { return mariaDSN("unix("+m.socket()+")", params) }

// Proxy starts a proxy to the server, which must be closed. Its clients use TCP.
func (m *MariaDB) Proxy() (*Proxy, error) {
	return newProxy("unix", m.socket(), func(addr string, params []string) string {
		return mariaDSN("tcp("+addr+")", params)
	})
}

func mariaDSN(addr string, params []string) string {
	text, separator := "root@"+addr+"/test", "?"
	for _, p := range params {
		text += separator + p
		separator = "&"
	}
	return text
}

// Kill ends the server at once, as a crash does. Start recovers it.
func (m *MariaDB) Kill() {
	m.process.signal(os.Kill)
	<-m.process.exited
}

// Pause stops the server, and Continue continues it.
func (m *MariaDB) Pause() { m.process.signal(testprocess.Stop) }

// Continue continues the server after Pause.
func (m *MariaDB) Continue() { m.process.signal(testprocess.Continue) }

// Close ends the server and removes its folder.
func (m *MariaDB) Close() {
	if m.process != nil {
		m.Kill()
	}
	_ = os.RemoveAll(m.dir)
}
