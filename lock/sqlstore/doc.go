// Package sqlstore keeps locks in tables of a SQL database: PostgreSQL, or SQLite for the
// processes of one machine. It is for programs that have such a database already and want no other server for
// their locks. The user brings the *sql.DB and its driver; this package imports none.
//
//	db, err := sql.Open("pgx", "postgres://…")
//	…
//	err = sqlstore.CreateSchema(ctx, db, sqlstore.PostgreSQL(), nil)
//	…
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL(), nil)
//	…
//	client, err := lock.New(store, nil)
package sqlstore
