// This file is about the statements that create the tables.

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
		return nil, errors.New("sqlstore: the Dialect is zero; use PostgreSQL(), MySQL() or SQLite()")
	}
	o, err := options.checked(d.dialect)
	if err != nil {
		return nil, err
	}
	text, err := schemas.ReadFile("schema/" + d.schema())
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	var statements []string
	for part := range strings.SplitSeq(strings.ReplaceAll(string(text), defaultTable+"_", prefix(d.dialect, o)), "\n\n") {
		if part = strings.TrimSpace(part); strings.HasSuffix(part, ";") { // otherwise it is a comment
			statements = append(statements, strings.TrimSuffix(part, ";"))
		}
	}
	return statements, nil
}

// prefix returns what the names of all tables begin with. The name of a schema may be a word of the language.
func prefix(d dialect, o Options) string {
	if schema, name, ok := strings.Cut(o.Table, "."); ok {
		return d.quote(schema) + "." + name + "_"
	}
	return o.Table + "_"
}

// CreateSchema creates the tables that do not exist yet. It leaves existing ones as they are, so
// a program may call it at each start, if its user may create tables.
func CreateSchema(ctx context.Context, db *sql.DB, d Dialect, options *Options) error {
	statements, err := Schema(d, options)
	if err != nil {
		return err
	}
	o, err := options.checked(d.dialect)
	if err != nil {
		return err
	}
	if db == nil {
		return errors.New("sqlstore: the *sql.DB is nil")
	}
	for _, text := range statements {
		if _, err := db.ExecContext(ctx, text); err != nil && !d.existsAlready(err) {
			return fmt.Errorf("sqlstore: create the tables: %w", err)
		}
	}
	return d.checkSchema(ctx, db, newTexts(d.dialect, o))
}
