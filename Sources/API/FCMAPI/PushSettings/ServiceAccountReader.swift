import Credentials
import PushMessages

/// Reads the file of a Google service account, as the Firebase console gives it.
enum ServiceAccountReader {
    private static let field = "serviceAccount"

    static func read(_ text: String) throws(APIError) -> RelaySettings.Account {
        let parser = JSONParser()
        // The value points into the parser's memory.
        defer { withExtendedLifetime(parser) {} }
        let value: JSONValue
        do throws(JSONError) {
            value = try parser.parse(Array(text.utf8))
        } catch { throw .invalid(field, "The file is no JSON: \(error.reason)") }
        guard value.kind == .object, value["type"]?.text == "service_account" else {
            throw .invalid(field, "The file is no service account's: its type is not service_account.")
        }
        let account = RelaySettings.Account(
            projectID: try member("project_id", of: value),
            clientEmail: try member("client_email", of: value),
            keyID: try member("private_key_id", of: value),
            privateKey: try member("private_key", of: value, bytesMax: RelaySettings.privateKeyBytesMax),
            tokenURI: try member(
                "token_uri", of: value, bytesMax: RelaySettings.urlBytesMax, mayLack: true))
        guard Project.isValid(account.projectID.utf8) else {
            throw .invalid(field, "The file's project_id is no project's id.")
        }
        do throws(PushCryptoError) { _ = try RSAKey(pem: account.privateKey) } catch {
            throw .invalid(field, "The file's private_key is refused: \(error).")
        }
        return account
    }

    private static func member(
        _ name: StaticString, of value: JSONValue, bytesMax: Int = RelaySettings.textBytesMax,
        mayLack: Bool = false
    ) throws(APIError) -> String {
        guard let found = value[name], found.kind != .null else {
            if mayLack { return "" }
            throw .invalid(field, "The file has no \(name).")
        }
        guard let text = found.text, text.utf8.count <= bytesMax, mayLack || !text.isEmpty else {
            throw .invalid(field, "The file's \(name) is no text of 1 to \(bytesMax) bytes.")
        }
        return text
    }
}

enum RelayCheck {
    /// An endpoint as the settings keep it: without a slash at its end.
    static func endpoint(_ text: String) throws(APIError) -> String {
        guard !text.isEmpty else { return "" }
        guard text.utf8.count <= RelaySettings.urlBytesMax - 16 else {
            throw .invalid("endpoint", "The endpoint has more than \(RelaySettings.urlBytesMax - 16) bytes.")
        }
        let parsed: PushEndpoint
        do throws(PushEndpointError) {
            parsed = try PushEndpoint.parse(operators: text)
        } catch { throw .invalid("endpoint", error.description) }
        guard !parsed.path.utf8.contains(UInt8(ascii: "?")) else {
            throw .invalid("endpoint", "The endpoint must have no query.")
        }
        var url = parsed.url
        while url.hasSuffix("/") { url.removeLast() }
        return url
    }
}
