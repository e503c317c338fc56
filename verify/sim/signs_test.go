package sim

import "github.com/leasewheel/leasewheel/verify/mutant"

var signs = mutant.Signs{}
