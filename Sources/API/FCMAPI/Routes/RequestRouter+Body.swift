import HTTPMessages

// A request's body: its content coding, and its JSON.

extension RequestRouter {
    /// The body's content. A body in gzip may have as much content as the path's body may have bytes. The
    /// body is unpacked only here: in the request's turn, and behind what a path checks before it reads the
    /// body. So no request keeps unpacked bytes while it waits (rule: bounds-before-work).
    func body() throws(APIError) -> [UInt8] {
        guard let coding = request.fields["content-encoding"], !coding.isEmpty, !request.body.isEmpty else {
            return request.body
        }
        let name = String(decoding: coding, as: UTF8.self).lowercased()
        guard request.fields.count(of: "content-encoding") == 1 else { throw .contentCoding("several") }
        switch name {
        case "identity": return request.body
        case "gzip", "x-gzip":
            do throws(Gzip.Failure) {
                return try Gzip.unpack(
                    request.body, bytesMax: API.contentMax(of: request, isAdmin: isAdmin))
            } catch { throw .gzip(error) }
        default: throw .contentCoding(name)
        }
    }

    /// Checks a body whose content does not matter: it may be missing, or must be an object.
    func ignoredBody() throws(APIError) {
        guard !request.body.isEmpty, try json().kind != .object else { return }
        throw .badJSON("The body must be an object.")
    }

    func json() throws(APIError) -> JSONValue {
        let body = try body()
        do {
            return try api.parser.parse(body, isLenient: true)
        } catch {
            throw .badJSON(RequestRouter.otherText(body) ?? RequestRouter.halfText(body) ?? error.reason)
        }
    }

    /// Why the body is no JSON, if a text was cut inside a character.
    private static func halfText(_ body: [UInt8]) -> String? {
        HalfCharacter.first(in: body).map {
            "A string has \($0), half of a character: was a text cut in two inside an emoji?"
        }
    }

    /// Why the body is no JSON, if its first bytes show another form of text than UTF-8.
    private static func otherText(_ body: [UInt8]) -> String? {
        if body.starts(with: [0xEF, 0xBB, 0xBF]) { return "The body begins with a byte order mark." }
        let isWide = body.starts(with: [0xFE, 0xFF]) || body.starts(with: [0xFF, 0xFE])
        return isWide || body.prefix(2).contains(0) ? "The body must be UTF-8, and looks like UTF-16." : nil
    }
}
