// Package check tests package leaseotel with the SDK of OpenTelemetry. It is a module of its own, so
// that the plug-in requires no more than the API.
package check
