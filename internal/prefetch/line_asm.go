//go:build gc && !purego && (amd64 || arm64)

// Line in assembly, on amd64 and arm64.

package prefetch

import "unsafe"

// Line loads the cache line at p into all levels of the cache. It is a hint: p can be
// any value, and Line never faults.
//
//go:noescape
func Line(p unsafe.Pointer)
