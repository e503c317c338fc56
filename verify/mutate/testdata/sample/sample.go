// Package sample is something to mutate, whose tests leave out some of it.
package sample

// Clamp returns the number within bounds that is nearest to n.
func Clamp(n, low, high int) int {
	if n < low { // n == low makes no difference: an equivalent
		return low
	}
	if n > high {
		return high
	}
	return n
}

// Sum adds up what is above 10.
func Sum(numbers ...int) (sum int) {
	for i := 0; i < len(numbers); i++ {
		if numbers[i] <= 10 {
			continue
		}
		sum += numbers[i]
	}
	return sum
}

// Greeting greets, and counts how often. What it counts is not tested.
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

// Untested is executed by no test.
func Untested(n int) int { return n - 1 }
