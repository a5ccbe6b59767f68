import Testing

/// `#expect` for expressions that change a value, which the macro does not take.
func expect(
    _ isSo: Bool, _ comment: @autoclosure () -> String = "", at location: SourceLocation = #_sourceLocation
) {
    if !isSo { Issue.record(Comment(rawValue: "does not hold. \(comment())"), sourceLocation: location) }
}
