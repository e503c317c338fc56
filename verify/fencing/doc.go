// Package fencing tests fence.Tx on real SQL engines: SQLite in the process, PostgreSQL if
// its programs are installed, and MySQL or MariaDB if VERIFY_MYSQL is the data source name
// of an empty database, such as root@unix(/run/mysqld/mysqld.sock)/test.
package fencing
