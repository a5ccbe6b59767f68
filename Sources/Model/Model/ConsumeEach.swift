extension Array {
    /// Moves each element out, in order, and keeps the memory. To iterate would copy each element, and to
    /// reverse an array in the usual way copies each too.
    @inlinable
    public mutating func consumeEach(_ body: (consuming Element) -> Void) {
        withUnsafeMutableBufferPointer { $0.reverse() }
        while let element = popLast() { body(element) }
    }
}
