// Package sub uses package original.
package sub

import "github.com/leasewheel/leasewheel/internal/apidiff/testdata/original"

func Uses(s original.Same) {}

func Other(m map[string]chan int, a [2]original.Same) {}
