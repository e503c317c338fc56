// Package sample is a package to mutate. Its tests leave some of it untested.
package sample

// Clamp returns the number in [low, high] that is nearest to n.
func Clamp(n, low, high int) int {
	if n < low { // n <= low is an equivalent mutant
		return low
	}
	if n > high {
		return high
	}
	return n
}

// Sum returns the sum of the numbers above 10.
func Sum(numbers ...int) (sum int) {
	for i := 0; i < len(numbers); i++ {
		if numbers[i] <= 10 {
			continue
		}
		sum += numbers[i]
	}
	return sum
}

// Greeting returns a greeting and counts its calls. No test reads the count.
func Greeting(name string) string {
	greetings++
	prefix, mark := "Hello, ", len(name)+1
	text := upper(prefix+name, mark*2 > 2)
	return text
}

var greetings int

func upper(text string, really bool) string {
	if !really {
		return text
	}
	return text + "!"
}

// Untested has no test.
func Untested(n int) int { return n - 1 }
