package policy

// Members counts the members of objects and the elements of lists in JSON text, for who wants to know what parsing it will take: each becomes a value of its
// own before there is a chance to count it. The inputs of a program aren't counted, since they stay text. Of text that isn't JSON it counts the commas.
func Members(data []byte) int {
	count, depth, inputs := 0, 0, false
	for at := 0; at < len(data); at++ {
		switch data[at] {
		case '"':
			begin := at + 1
			if at = stringEnd(data, begin); depth == 1 && at < len(data) {
				inputs = string(data[begin:at]) == "inputs"
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 1 {
				inputs = false
			}
			if !inputs {
				count++
			}
		}
	}
	return count
}

// stringEnd is where the quote is that ends a string, or the end of data.
func stringEnd(data []byte, at int) int {
	for ; at < len(data) && data[at] != '"'; at++ {
		if data[at] == '\\' {
			at++
		}
	}
	return min(at, len(data))
}
