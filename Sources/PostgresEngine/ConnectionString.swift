import CPQ

/// What libpq makes of an URL or of keywords, without connecting.
public enum ConnectionString {
    public enum Finding: Sendable {
        case plain
        case withPassword
        /// libpq would say why, and show parts of it: perhaps of the password.
        case malformed
    }

    public static func look(_ text: String) -> Finding {
        let isURL = ["postgres://", "postgresql://"].contains(where: text.hasPrefix)
        // What is neither is the name of a database.
        guard isURL || text.utf8.contains(UInt8(ascii: "=")) else { return .plain }
        var reason: UnsafeMutablePointer<CChar>?
        let options = PQconninfoParse(text, &reason)
        defer {
            PQfreemem(reason)
            PQconninfoFree(options)
        }
        guard var option = options else { return .malformed }
        // The list ends with an option that has no keyword.
        while let keyword = option.pointee.keyword {
            if ["password", "sslpassword"].contains(String(cString: keyword)),
                let value = option.pointee.val, value.pointee != 0
            {
                return .withPassword
            }
            option += 1
        }
        return .plain
    }
}
