/// A line: the first in is the first out, each in constant time on average.
struct FIFO<Element>: Sequence {
    private var elements: [Element?] = []
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { count == 0 }
    var first: Element? { isEmpty ? nil : elements[head] }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard let element = first else { return nil }
        // What the element keeps alive must not stay here.
        elements[head] = nil
        head += 1
        if head >= FIFO.keptSlots, head * 2 >= elements.count {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }

    /// Empty slots that the line keeps before it moves its elements up.
    private static var keptSlots: Int { 32 }

    mutating func removeAll() { self = FIFO() }

    struct Iterator: IteratorProtocol {
        fileprivate var rest: ArraySlice<Element?>.Iterator
        mutating func next() -> Element? { rest.next() ?? nil }
    }
    func makeIterator() -> Iterator { Iterator(rest: elements[head...].makeIterator()) }
}
