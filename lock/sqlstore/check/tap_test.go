package check

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tap sees all statements of a pool before their driver does. BEGIN and COMMIT are statements, too.
type tap struct {
	connector sqldriver.Connector

	mu     sync.Mutex // guards the fields below
	before func(text string)
	n      int
}

// newTapped returns a pool on the tables of a database whose statements the tap sees.
func newTapped(t testing.TB, d *database, dsn string) (*database, *tap) {
	t.Helper()
	p := &tap{connector: dsnConnector{d.db.Driver(), dsn}}
	if c, ok := d.db.Driver().(sqldriver.DriverContext); ok {
		var err error
		p.connector, err = c.OpenConnector(dsn)
		require.NoError(t, err)
	}
	db := sql.OpenDB(p)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return &database{db, d.dialect, d.table}, p
}

// statements returns how many statements f has caused.
func (p *tap) statements(f func()) int {
	p.mu.Lock()
	before := p.n
	p.mu.Unlock()
	f()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n - before
}

// onStatement sets what is called before each statement.
func (p *tap) onStatement(f func(text string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = f
}

func (p *tap) saw(text string) {
	p.mu.Lock()
	p.n++
	before := p.before
	p.mu.Unlock()
	if before != nil {
		before(text)
	}
}

func (p *tap) Driver() sqldriver.Driver { return p.connector.Driver() }

func (p *tap) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := p.connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tappedConn{c, p}, nil
}

// dsnConnector is a connector of a driver that has none.
type dsnConnector struct {
	driver sqldriver.Driver
	dsn    string
}

func (c dsnConnector) Connect(context.Context) (sqldriver.Conn, error) { return c.driver.Open(c.dsn) }
func (c dsnConnector) Driver() sqldriver.Driver                        { return c.driver }

// tappedConn is a connection that has all interfaces that the drivers of the tests have.
type tappedConn struct {
	sqldriver.Conn
	tap *tap
}

func (c *tappedConn) ExecContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Result, error) {
	c.tap.saw(text)
	return c.Conn.(sqldriver.ExecerContext).ExecContext(ctx, text, args)
}

func (c *tappedConn) QueryContext(ctx context.Context, text string, args []sqldriver.NamedValue) (sqldriver.Rows, error) {
	c.tap.saw(text)
	return c.Conn.(sqldriver.QueryerContext).QueryContext(ctx, text, args)
}

func (c *tappedConn) PrepareContext(ctx context.Context, text string) (sqldriver.Stmt, error) {
	return c.Conn.(sqldriver.ConnPrepareContext).PrepareContext(ctx, text)
}

func (c *tappedConn) BeginTx(ctx context.Context, o sqldriver.TxOptions) (sqldriver.Tx, error) {
	c.tap.saw("BEGIN")
	tx, err := c.Conn.(sqldriver.ConnBeginTx).BeginTx(ctx, o)
	return tappedTx{tx, c.tap}, err
}

func (c *tappedConn) CheckNamedValue(v *sqldriver.NamedValue) error {
	if checker, ok := c.Conn.(sqldriver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return sqldriver.ErrSkip
}

func (c *tappedConn) ResetSession(ctx context.Context) error {
	if resetter, ok := c.Conn.(sqldriver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

func (c *tappedConn) IsValid() bool {
	validator, ok := c.Conn.(sqldriver.Validator)
	return !ok || validator.IsValid()
}

type tappedTx struct {
	sqldriver.Tx
	tap *tap
}

func (t tappedTx) Commit() error {
	t.tap.saw("COMMIT")
	return t.Tx.Commit()
}
