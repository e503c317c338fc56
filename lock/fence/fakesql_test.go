package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// fakeDB is a database with one connection. It knows the statements of the tests by their
// first words. Module verify tests the statements of package fence on real engines.
type fakeDB struct {
	mu   sync.Mutex // guards all below
	data fakeData
	log  []string         // statements, and begin, commit, rollback
	fail map[string]error // errors, by the first words of a statement
}

type fakeData struct {
	tokens  map[string]int64 // the table fencing_tokens
	stock   map[string]int64 // the column fence of the tables stock and orders, by id
	reports []string         // the table reports
}

func newFake() *fakeDB {
	return &fakeDB{data: fakeData{tokens: map[string]int64{}, stock: map[string]int64{"apples": 0}}}
}

// openFake returns a new fake database.
func openFake() *sql.DB { return open(newFake()) }

func open(f *fakeDB) *sql.DB {
	db := sql.OpenDB(f)
	db.SetMaxOpenConns(1)
	return db
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return &fakeConn{f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

// begin records a statement. The caller holds mu.
func (f *fakeDB) begin(query string) error {
	f.log = append(f.log, query)
	for start, err := range f.fail {
		if strings.HasPrefix(query, start) {
			return err
		}
	}
	return nil
}

func (f *fakeDB) do(query string, args []driver.NamedValue) (driver.Result, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(query); err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(query, "INSERT INTO fencing_tokens"):
		resource, token := args[0].Value.(string), args[1].Value.(int64)
		f.data.tokens[resource] = max(f.data.tokens[resource], token)
	case strings.HasPrefix(query, "INSERT INTO reports"):
		f.data.reports = append(f.data.reports, args[0].Value.(string))
	case strings.HasPrefix(query, "UPDATE stock"):
		token, id := args[1].Value.(int64), args[2].Value.(string)
		stored, exists := f.data.stock[id]
		if !exists || stored > token {
			return driver.RowsAffected(0), nil
		}
		f.data.stock[id] = token
	case strings.HasPrefix(query, "UPDATE orders"):
		token, n := args[0].Value.(int64), 0
		for _, id := range args[1 : len(args)-1] {
			if stored, exists := f.data.stock[id.Value.(string)]; exists && stored <= token {
				f.data.stock[id.Value.(string)] = token
				n++
			}
		}
		return driver.RowsAffected(n), nil
	default:
		return nil, errors.ErrUnsupported
	}
	return driver.RowsAffected(1), nil
}

func (f *fakeDB) read(query string, args []driver.NamedValue) (driver.Rows, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.begin(query); err != nil {
		return nil, err
	}
	if strings.HasPrefix(query, "SELECT MAX(fence) FROM orders") {
		rows := &fakeRows{left: true}
		for _, id := range args {
			if stored, exists := f.data.stock[id.Value.(string)]; exists {
				rows.token, rows.known = max(rows.token, stored), true
			}
		}
		return rows, nil
	}
	table := f.data.tokens
	if strings.HasPrefix(query, "SELECT fence FROM stock") {
		table = f.data.stock
	}
	token, exists := table[args[0].Value.(string)]
	return &fakeRows{token: token, known: exists, left: exists}, nil
}

type fakeConn struct{ db *fakeDB }

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *fakeConn) Close() error                        { return nil }

func (c *fakeConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.db.do(query, args)
}

func (c *fakeConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.db.read(query, args)
}

func (c *fakeConn) Begin() (driver.Tx, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	before := fakeData{maps.Clone(c.db.data.tokens), maps.Clone(c.db.data.stock), slices.Clone(c.db.data.reports)}
	return &fakeTx{c.db, before}, c.db.begin("begin")
}

type fakeTx struct {
	db     *fakeDB
	before fakeData
}

func (t *fakeTx) Commit() error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	return t.db.begin("commit")
}

func (t *fakeTx) Rollback() error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	t.db.data = t.before
	return t.db.begin("rollback")
}

// fakeRows has one row, or none.
type fakeRows struct {
	token int64
	known bool // the token is not NULL
	left  bool
}

func (r *fakeRows) Columns() []string { return []string{"token"} }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []driver.Value) error {
	if !r.left {
		return io.EOF
	}
	r.left = false
	if dest[0] = r.token; !r.known {
		dest[0] = nil
	}
	return nil
}
