import CPQ

/// How libpq reads a URL or keywords, without connecting.
public enum ConnectionString {
    public enum Finding: Sendable {
        case plain
        case withPassword
        /// The caller must not show libpq's reason, which quotes parts of the text, perhaps of the password.
        /// Also if libpq took a password with an `@` or a `/` apart, and a piece of it became a host, port or
        /// database.
        case malformed
    }

    public static func look(_ text: String) -> Finding {
        let isURL = ["postgres://", "postgresql://"].contains(where: text.hasPrefix)
        // Any other text is the name of a database.
        guard isURL || text.utf8.contains(UInt8(ascii: "=")) else { return .plain }
        guard let found = parse(text) else { return .malformed }
        let isTorn =
            (found["host"] ?? "").split(separator: ",").contains { $0.dropFirst().contains("@") }
            || !(found["port"] ?? "").utf8.allSatisfy {
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || $0 == UInt8(ascii: ",")
            } || (isURL && (found["dbname"] ?? "").contains("@"))
        if isTorn { return .malformed }
        return found["password"] == nil && found["sslpassword"] == nil ? .plain : .withPassword
    }

    /// Options that have a value; `nil` if libpq cannot read the text.
    private static func parse(_ text: String) -> [String: String]? {
        var reason: UnsafeMutablePointer<CChar>?
        let options = PQconninfoParse(text, &reason)
        defer {
            PQfreemem(reason)
            PQconninfoFree(options)
        }
        guard var option = options else { return nil }
        var found: [String: String] = [:]
        // The list ends with an option that has no keyword.
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val, value.pointee != 0 {
                found[String(cString: keyword)] = String(cString: value)
            }
            option += 1
        }
        return found
    }
}
