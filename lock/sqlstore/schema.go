// The tables: where they are, and the statements that create them.

package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"strings"
)

//go:embed schema
var schemas embed.FS

// Schema returns the statements that create the tables, with the names that the options give
// them. They are those of the folder schema, which may be run by hand or by a tool for
// migrations instead.
func Schema(d Dialect, options *Options) ([]string, error) {
	if d.dialect == nil {
		return nil, errNoDialect
	}
	o, err := options.checked(d.dialect)
	if err != nil {
		return nil, err
	}
	return schemaOf(d.dialect, o)
}

var errNoDialect = errors.New("sqlstore: the Dialect is zero; use PostgreSQL(), MySQL() or SQLite()")

func schemaOf(d dialect, o Options) ([]string, error) {
	text, err := schemas.ReadFile("schema/" + strings.ToLower(d.traits().name) + ".sql")
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	var statements []string
	for part := range strings.SplitSeq(strings.ReplaceAll(string(text), defaultTable+"_", prefix(d, o)), "\n\n") {
		if part = strings.TrimSpace(part); strings.HasSuffix(part, ";") { // otherwise it is a comment
			statements = append(statements, strings.TrimSuffix(part, ";"))
		}
	}
	return statements, nil
}

// prefix returns what the names of all tables begin with. The name of a schema may be a word of the language.
func prefix(d dialect, o Options) string {
	if i := strings.LastIndex(o.Table, "."); i >= 0 {
		q := d.traits().quote
		return q + strings.ReplaceAll(o.Table[:i], q, q+q) + q + "." + o.Table[i+1:] + "_"
	}
	return o.Table + "_"
}

// in returns the options with the name of a schema before that of the tables, which may be any name.
func (o Options) in(schema string) Options {
	o.Table = schema + "." + o.Table
	return o
}

// hasSchema reports whether the options name the schema of the tables.
func (o Options) hasSchema() bool { return strings.Contains(o.Table, ".") }

// locate looks for the tables, once in the life of a Store, and checks that the session keeps the promises of the
// store. All other statements name the schema, so the search_path or the current database of a
// session, which others may change, decides nothing. It does so in a transaction, because a pooler that has
// none would only be noticed at the first hand-over otherwise.
func (s *Store) locate(ctx context.Context, c *sql.Conn) error {
	return s.locateOnce(ctx, func() (Options, error) {
		tx, err := s.dialect.begin(ctx, c)
		if err != nil {
			return Options{}, err
		}
		defer tx.rollback()
		return s.dialect.locate(ctx, tx, s.options, false)
	})
}

func (s *Store) locateOnce(ctx context.Context, look func() (Options, error)) error {
	if s.located.Load() {
		return nil
	}
	select {
	case s.locating <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.locating }()
	if s.located.Load() {
		return nil
	}
	o, err := look()
	if err == nil {
		s.texts = newTexts(s.dialect, o)
		s.located.Store(true)
	}
	return err
}

// missingError is the error of a statement that has not found a table.
func missingError(tables string) error {
	return fmt.Errorf("not all tables %s exist, CreateSchema creates them", tables)
}

// CreateSchema creates the tables that do not exist yet. It leaves existing ones as they are, so
// a program may call it at each start, if its user may create tables.
//
// In PostgreSQL, tables that are in any schema of the database are those of the store, and CreateSchema adds what
// is missing to them. If there are none it uses the first schema of the search_path, and in MySQL the current database.
func CreateSchema(ctx context.Context, db *sql.DB, d Dialect, options *Options) error {
	if d.dialect == nil {
		return errNoDialect
	}
	o, err := options.checked(d.dialect)
	if err != nil {
		return err
	}
	if db == nil {
		return errors.New("sqlstore: the *sql.DB is nil")
	}
	if !o.hasSchema() && d.traits().schemas {
		if o, err = d.locate(ctx, db, o, true); err != nil {
			return fmt.Errorf("sqlstore: create the tables: %w", err)
		}
	}
	statements, err := schemaOf(d.dialect, o)
	if err != nil {
		return err
	}
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil && d.faultOf(err) != exists {
			return fmt.Errorf("sqlstore: create the tables %s_*: %w", o.Table, err)
		}
	}
	return d.checkSchema(ctx, db, newTexts(d.dialect, o)) // of SQLite
}
