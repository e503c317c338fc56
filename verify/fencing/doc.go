// Package fencing tests fence.Tx on real SQL engines: SQLite in the process, and PostgreSQL and
// MariaDB if their programs are installed.
package fencing
