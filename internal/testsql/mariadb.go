// A MariaDB or MySQL server.

package testsql

import (
	"os"
	"path/filepath"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// MariaDB is a MariaDB server with an empty database, which listens on a socket only.
type MariaDB struct {
	path, dir string
	mysql     bool // it is a MySQL server
	args      []string
	process   *testprocess.Process
}

// LaunchMariaDB starts a server. Further arguments are settings, such as
// "innodb-snapshot-isolation=ON". The environment variable MYSQLD names the program of a MySQL server to start instead.
func LaunchMariaDB(settings ...string) (*MariaDB, error) {
	return launch(os.Getenv("MYSQLD"), settings)
}

// LaunchMySQL starts the MySQL server that the environment variable MYSQLD names if mysql is true, and otherwise a
// MariaDB server.
func LaunchMySQL(mysql bool, settings ...string) (*MariaDB, error) {
	path := os.Getenv("MYSQLD")
	switch {
	case !mysql:
		path = ""
	case path == "":
		return nil, &testprocess.MissingError{Server: "MySQL", Program: "mysqld"}
	}
	return launch(path, settings)
}

func launch(mysqld string, settings []string) (*MariaDB, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	m := &MariaDB{path: mysqld, dir: dir}
	if m.mysql = m.path != ""; m.mysql {
		err = m.install(m.path, "--initialize-insecure")
		settings = append([]string{"secure-file-priv=NULL", "mysqlx=OFF"}, settings...)
	} else {
		err = m.installMariaDB()
	}
	m.args = m.arguments()
	for _, s := range settings {
		m.args = append(m.args, "--"+s)
	}
	if err == nil {
		err = m.Start()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// arguments returns those of every server. A killed process loses nothing that the kernel has, so tests need no
// flush at each commit.
func (m *MariaDB) arguments() []string {
	args := []string{
		"--no-defaults", "--datadir=" + m.data(), "--tmpdir=" + m.dir, "--socket=" + m.socket(), "--skip-networking",
		"--pid-file=" + filepath.Join(m.dir, "pid"), "--innodb-buffer-pool-size=32M",
		"--innodb-flush-log-at-trx-commit=2", "--max-connections=500",
	}
	if !m.mysql {
		args = append(args, "--innodb-log-file-size=8M")
	}
	return args
}

func (m *MariaDB) installMariaDB() (err error) {
	if m.path, err = find("MariaDB", "mariadbd", "/usr/sbin", "/usr/libexec", "/opt/homebrew/opt/mariadb/bin"); err != nil {
		return err
	}
	install, err := find("MariaDB", "mariadb-install-db", filepath.Dir(m.path), filepath.Join(filepath.Dir(m.path), "../bin"))
	if err != nil {
		return err
	}
	return m.install(install, "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-log-file-size=8M", "--tmpdir="+m.dir)
}

// install makes the folder with the data.
func (m *MariaDB) install(program string, args ...string) error {
	return makeData(m.dir, program, append([]string{"--no-defaults", "--datadir=" + m.data()}, args...)...)
}

// IsMySQL reports whether the server is one of MySQL.
func (m *MariaDB) IsMySQL() bool { return m.mysql }

func (m *MariaDB) data() string   { return filepath.Join(m.dir, "data") }
func (m *MariaDB) socket() string { return filepath.Join(m.dir, "socket") }

// Start starts the server again after Kill, and waits until it answers.
func (m *MariaDB) Start() (err error) {
	if m.process, err = start(m.path, m.args...); err != nil {
		return err
	}
	return awaitSQL(m.process, "mysql", "root@unix("+m.socket()+")/", "CREATE DATABASE IF NOT EXISTS test")
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
func (m *MariaDB) Kill() { m.process.Kill() }

// Pause stops the server, and Continue continues it.
func (m *MariaDB) Pause() { m.signal(testprocess.Stop) }

// Continue continues the server after Pause.
func (m *MariaDB) Continue() { m.signal(testprocess.Continue) }

func (m *MariaDB) signal(s os.Signal) { _ = m.process.Cmd.Process.Signal(s) }

// Close ends the server and removes its folder.
func (m *MariaDB) Close() {
	if m.process != nil {
		m.Kill()
	}
	_ = os.RemoveAll(m.dir)
}
