// Command stores is renewdemo with the stores of databases, of etcd and of ZooKeeper. It is a module
// of its own, so that the core module does not depend on their drivers. The program renewdemo builds
// and runs it when its flag -store asks for one of these stores.
//
//	go run . -leases 1000 -store sqlite:locks.db
//	go run . -leases 1000 -store postgres://user:password@localhost/database
//	go run . -leases 1000 -store mysql://user:password@localhost/database
//	go run . -leases 1000 -store 'mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock'
//	go run . -leases 1000 -store etcd://localhost:2379
//	go run . -leases 1000 -ttl 15s -store zk://localhost:2181
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/cmd/renewdemo/internal/demo"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func main() { os.Exit(demo.Main(stores())) }

// stores returns the functions that open stores, by the schemes of their URLs.
func stores() demo.Stores {
	return demo.Stores{
		"sqlite":     openSQLite,
		"postgres":   openPostgres,
		"postgresql": openPostgres,
		"mysql":      openMySQL,
		"mariadb":    openMySQL,
		"etcd":       openEtcd,
		"zk":         openZooKeeper,
	}
}

// openTimeout bounds the first requests to a server.
const openTimeout = 10 * time.Second

func openSQLite(ctx context.Context, text string) (*demo.Backend, error) {
	file := strings.TrimPrefix(strings.TrimPrefix(text, "sqlite:"), "//")
	if file == "" {
		return nil, errors.New("-store needs a file, such as sqlite:locks.db")
	}
	return openSQL(ctx, "SQLite in "+file, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)", sqlstore.SQLite())
}

func openPostgres(ctx context.Context, text string) (*demo.Backend, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	return openSQL(ctx, "PostgreSQL at "+u.Host, "pgx", text, sqlstore.PostgreSQL())
}

func openMySQL(ctx context.Context, text string) (*demo.Backend, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	c := mysql.NewConfig()
	c.Net, c.Addr, c.DBName = "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	if u.Port() == "" {
		c.Addr += ":3306"
	}
	if socket := u.Query().Get("socket"); socket != "" {
		c.Net, c.Addr = "unix", socket
	}
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	return openSQL(ctx, "MariaDB or MySQL at "+u.Host, "mysql", c.FormatDSN(), sqlstore.MySQL())
}

// openSQL returns a store on a database, and creates its tables.
func openSQL(ctx context.Context, name, driverName, dsn string, d sqlstore.Dialect) (*demo.Backend, error) {
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, errors.New("-store: bad URL of a database") // err may show the password
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = sqlstore.CreateSchema(ctx, db, d, nil)
	var store *sqlstore.Store
	if err == nil {
		store, err = sqlstore.New(db, d, nil)
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return backend(store, name, func() { _ = db.Close() }), nil
}

func openEtcd(ctx context.Context, text string) (*demo.Backend, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: strings.Split(u.Host, ","), DialTimeout: openTimeout, DialKeepAliveTime: openTimeout,
		Username: u.User.Username(), Password: password, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %s: %w", u.Host, err)
	}
	checked, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if _, err := client.Get(checked, "health"); err != nil {
		_ = client.Close()
		return nil, fmt.Errorf("no etcd server at %s: %w", u.Host, err)
	}
	store, err := etcdstore.New(client, nil)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return backend(store, "etcd at "+u.Host, func() { _ = client.Close() }), nil
}

func openZooKeeper(ctx context.Context, text string) (*demo.Backend, error) {
	u, err := parse(text)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	store, err := zkstore.New(ctx, strings.Split(u.Host, ","), nil)
	if err != nil {
		return nil, fmt.Errorf("no ZooKeeper server at %s: %w", u.Host, err)
	}
	return backend(store, "ZooKeeper at "+u.Host, func() {}), nil
}

// parse parses a URL with a host.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" { // err may show the password
		scheme, _, _ := strings.Cut(text, ":")
		return nil, fmt.Errorf("-store must be a URL such as %s://host/name", scheme)
	}
	return u, nil
}

// backend returns a store for the demo. Locks are taken away from their holders by ForceRelease.
func backend(s driver.Store, name string, disconnect func()) *demo.Backend {
	return &demo.Backend{
		Store: s, Name: name, Disconnect: disconnect,
		Delete: func(ctx context.Context, keys []string) error {
			for _, key := range keys {
				if err := s.ForceRelease(ctx, key); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
