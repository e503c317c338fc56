// Package sub uses package replacement.
package sub

import "github.com/leasewheel/leasewheel/internal/apidiff/testdata/replacement"

func Uses(same replacement.Same) {}

func Other(m map[string]chan int, a [3]replacement.Same) {}
