//go:build !gc || purego || !(amd64 || arm64)

package prefetch

import "unsafe"

// Line does nothing, because Go has no prefetch for this architecture without a read.
func Line(unsafe.Pointer) {}
