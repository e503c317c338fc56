// Package check tests the dashboard and the alerts of leaseprom with the parser and the
// query engine of Prometheus. It is a module of its own, because users of leaseprom do not
// need that dependency.
package check
