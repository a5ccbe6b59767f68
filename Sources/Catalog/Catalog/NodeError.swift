/// Why a node cannot start or go on: a sentence that says what to do.
public struct NodeError: Error, CustomStringConvertible {
    public var description: String
    package init(_ description: String) { self.description = description }
}
