//go:build !gc || purego || !(amd64 || arm64)

// Line in builds without assembly, where it does nothing.

package prefetch

import "unsafe"

// Line does nothing, because Go has no prefetch for this architecture without a read.
func Line(unsafe.Pointer) {}
