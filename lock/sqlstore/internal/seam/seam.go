// Package seam gives the tests of sqlstore control over what a program cannot change. They are in
// another module, because they need drivers and servers. Package sqlstore sets the variables; each
// function takes a *sqlstore.Store.
package seam

import (
	"context"
	"database/sql"

	"github.com/leasewheel/leasewheel/lock/driver"
)

var (
	// Expand returns a statement for the database of a store. In the text, names in braces stand for
	// tables and for expressions, and question marks for parameters.
	Expand func(store any, text string) string

	// TextsOf returns statements of a store.
	TextsOf func(store any) Texts

	// Enter sends the request of a Wait that enters the queue, and no more.
	Enter func(ctx context.Context, store any, r driver.Request) error

	// GrantAfter grants a lock in a transaction that calls f after it has locked the row of the key.
	GrantAfter func(ctx context.Context, store any, c *sql.Conn, r driver.Request, f func()) error

	// Calls returns how many calls of a store are under way.
	Calls func(store any) int

	// PageSize is how many rows one statement of List and Sweep reads.
	PageSize int
)

// Texts are statements that a test recognizes or changes.
type Texts struct{ CreateRow, ReadLocks, IsHeld *string }
