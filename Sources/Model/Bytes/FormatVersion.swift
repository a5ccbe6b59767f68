/// The error text for a value whose version this program does not know. Everything that is stored or sent
/// carries a version (docs/formats.md).
public enum FormatVersion {
    /// - Parameter what: With its article: "a project".
    public static func sentence(_ what: String, _ found: UInt64, known: ClosedRange<UInt64>) -> String {
        let speaks =
            known.lowerBound == known.upperBound
            ? "version \(known.lowerBound)" : "versions \(known.lowerBound) to \(known.upperBound)"
        guard found > known.upperBound else {
            return "\(what) of version \(found): this tidecast reads \(speaks)"
        }
        return "\(what) of version \(found): it is from a newer tidecast, this one reads \(speaks)"
    }
}
