// A PgBouncer before a PostgreSQL server.

package testsql

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// Bouncer is a PgBouncer in transaction mode before a PostgreSQL server.
type Bouncer struct {
	dir     string
	port    int
	process *testprocess.Process
}

// LaunchBouncer starts a PgBouncer. Further arguments are settings, such as "pool_mode = statement".
func LaunchBouncer(p *Postgres, settings ...string) (*Bouncer, error) {
	path, err := find("PgBouncer", "pgbouncer", "/usr/sbin", "/usr/local/sbin")
	if err != nil {
		return nil, err
	}
	b := &Bouncer{}
	if b.dir, err = folder(); err != nil {
		return nil, err
	}
	if b.port, err = freePort(); err != nil {
		return nil, err
	}
	ini := filepath.Join(b.dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
postgres = host=127.0.0.1 port=%d dbname=postgres user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 24
max_client_conn = 500
ignore_startup_parameters = extra_float_digits
%s
`, p.port, b.port, strings.Join(settings, "\n"))
	if err := os.WriteFile(ini, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := give(ini); err != nil {
		return nil, err
	}
	if b.process, err = start(path, ini); err != nil {
		return nil, err
	}
	if err = awaitSQL(b.process, "pgx", b.DSN("default_query_exec_mode=exec"), "SELECT 1"); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// DSN returns the URL of the database by way of the PgBouncer.
func (b *Bouncer) DSN(params ...string) string {
	return postgresDSN(net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)), params)
}

// Close ends the PgBouncer and removes its folder.
func (b *Bouncer) Close() {
	b.process.Kill()
	_ = os.RemoveAll(b.dir)
}
