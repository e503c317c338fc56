// Package check tests package zkstore under faults and with its contract. It is a module of its own,
// so that programs which use the store do not depend on what only these tests need.
package check
