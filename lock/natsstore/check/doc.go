// Package check tests package natsstore on servers that it starts itself. It is a module of its own,
// so that programs which use the store do not depend on the server.
package check
