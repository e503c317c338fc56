// The start of the servers of the SQL stores, etcd, ZooKeeper and NATS.

package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/pglisten"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func startSQLite(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp("", "bench-sqlite")
	if err != nil {
		return nil, err
	}
	dsn := "file:" + filepath.Join(dir, "locks.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
	s, err := onSQL(ctx, "sqlite", "", func(string) string { return dsn }, sqlstore.SQLite(), "SELECT 'SQLite ' || sqlite_version()", false)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s.stop = func() { _ = os.RemoveAll(dir) }
	return s, nil
}

func startPostgres(ctx context.Context) (*server, error) { return startPostgresWith(ctx, false) }

// startListening is startPostgres with a Listener for each client.
func startListening(ctx context.Context) (*server, error) { return startPostgresWith(ctx, true) }

func startPostgresWith(ctx context.Context, listen bool) (*server, error) {
	p, err := testsql.LaunchPostgres("fsync=on")
	if err != nil {
		return nil, orMissing(err)
	}
	dsn := func(addr string) string { return strings.Replace(p.DSN(), p.Addr(), addr, 1) }
	s, err := onSQL(ctx, "pgx", p.Addr(), dsn, sqlstore.PostgreSQL(), "SELECT 'PostgreSQL ' || current_setting('server_version')", listen)
	if err != nil {
		p.Close()
		return nil, err
	}
	s.network, s.stop = "tcp", p.Close
	return s, nil
}

func startMariaDB(ctx context.Context) (*server, error) { return startMySQLWith(ctx, false) }

func startMySQL(ctx context.Context) (*server, error) { return startMySQLWith(ctx, true) }

func startMySQLWith(ctx context.Context, mysql bool) (*server, error) {
	m, err := testsql.LaunchMySQL(mysql, "innodb-flush-log-at-trx-commit=1")
	if err != nil {
		return nil, orMissing(err)
	}
	_, socket, _ := strings.Cut(m.DSN(), "(")
	socket, _, _ = strings.Cut(socket, ")")
	dsn := func(addr string) string {
		if addr == socket {
			return m.DSN()
		}
		return strings.Replace(m.DSN(), "unix("+socket, "tcp("+addr, 1)
	}
	s, err := onSQL(ctx, "mysql", socket, dsn, sqlstore.MySQL(), "SELECT CONCAT(IF(VERSION() LIKE '%MariaDB%', 'MariaDB ', 'MySQL '), VERSION())", false)
	if err != nil {
		m.Close()
		return nil, err
	}
	s.network, s.stop = "unix", m.Close
	return s, nil
}

// orMissing makes the error of a server that is not installed match errMissing.
func orMissing(err error) error {
	if errors.As(err, new(*testprocess.MissingError)) {
		return errors.Join(errMissing, err)
	}
	return err
}

// onSQL creates the tables in a database and returns the server without its network and its stop. The stores have a
// Listener if listen is true.
func onSQL(ctx context.Context, driverName, addr string, dsnAt func(addr string) string, d sqlstore.Dialect, version string, listen bool) (*server, error) {
	db, err := sql.Open(driverName, dsnAt(addr))
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if err := sqlstore.CreateSchema(ctx, db, d, nil); err != nil {
		return nil, err
	}
	s := &server{addr: addr, connect: func(addr string) (driver.Store, func(), error) {
		dsn := dsnAt(addr)
		db, err := sql.Open(driverName, dsn)
		if err != nil {
			return nil, nil, err
		}
		db.SetMaxOpenConns(acquirers)
		db.SetMaxIdleConns(acquirers)
		o, stop := &sqlstore.Options{}, func() {}
		if listen {
			listener, err := pglisten.New(dsn, nil)
			if err != nil {
				return nil, nil, errors.Join(err, db.Close())
			}
			o.Listener, stop = listener, func() { _ = listener.Close() }
		}
		store, err := sqlstore.New(db, d, o)
		return store, func() {
			stop()
			_ = db.Close()
		}, err
	}}
	if err := db.QueryRowContext(ctx, version).Scan(&s.version); err != nil {
		return nil, err
	}
	s.version, _, _ = strings.Cut(s.version, " (")
	s.version, _, _ = strings.Cut(s.version, "-")
	return s, nil
}

func startEtcd(ctx context.Context) (*server, error) {
	addr, stop, err := startChild("etcd")
	if err != nil {
		return nil, err
	}
	connect := func(addr string) (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	}
	client, err := connect(addr)
	if err != nil {
		stop()
		return nil, err
	}
	defer func() { _ = client.Close() }()
	status, err := client.Status(ctx, addr)
	if err != nil {
		stop()
		return nil, err
	}
	return &server{version: "etcd " + status.Version, network: "tcp", addr: addr, stop: stop, connect: func(addr string) (driver.Store, func(), error) {
		client, err := connect(addr)
		if err != nil {
			return nil, nil, err
		}
		store, err := etcdstore.New(client, nil)
		return store, func() { _ = client.Close() }, err
	}}, nil
}

func startZooKeeper(context.Context) (*server, error) {
	members, err := testzk.Launch(1, "zookeeper.forceSync=yes")
	if err != nil {
		return nil, orMissing(err)
	}
	return &server{
		version: "ZooKeeper",
		network: "tcp",
		addr:    members[0].Address,
		stop:    func() { testzk.Close(members) },
		connect: func(addr string) (driver.Store, func(), error) {
			// The context bounds the connecting only.
			ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
			defer cancel()
			store, err := zkstore.New(ctx, []string{addr}, &zkstore.Options{SessionTimeout: 70 * time.Second})
			return store, func() {}, err
		},
	}, nil
}

func startNATS(ctx context.Context) (*server, error) {
	addr, stop, err := startChild("nats")
	if err != nil {
		return nil, err
	}
	connect := func(addr string) (jetstream.JetStream, func(), error) {
		nc, err := nats.Connect("nats://" + addr)
		if err != nil {
			return nil, nil, err
		}
		js, err := jetstream.New(nc)
		return js, nc.Close, err
	}
	js, disconnect, err := connect(addr)
	if err != nil {
		stop()
		return nil, err
	}
	defer disconnect()
	if err := natsstore.CreateStream(ctx, js, nil); err != nil {
		stop()
		return nil, err
	}
	version := js.Conn().ConnectedServerVersion()
	return &server{version: "NATS " + version, network: "tcp", addr: addr, stop: stop, connect: func(addr string) (driver.Store, func(), error) {
		js, disconnect, err := connect(addr)
		if err != nil {
			return nil, nil, err
		}
		defer disconnect() // the store has a connection of its own
		store, err := natsstore.New(ctx, js, nil)
		if err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil
	}}, nil
}
