import CXXHash
import HTTPMessages

/// One file that browsers fetch: its bytes, and the header fields of its answer.
public struct WebFile: Sendable {
    private let body: [UInt8]
    private let fields: [(name: String, value: String)]
    /// The entity tag: the quoted XXH3-64 of the bytes, so that each build's files have their own
    /// (RFC 9110, 8.8.3).
    public let tag: String

    init(_ body: [UInt8], _ type: String, fields others: [(name: String, value: String)] = []) {
        self.body = body
        let hash = body.withUnsafeBytes { XXH3_64bits($0.baseAddress, $0.count) }
        let digits = String(hash, radix: 16)
        tag = "\"\(String(repeating: "0", count: 16 - digits.count))\(digits)\""
        // A browser asks for each use whether its copy is still current: a page and its worker must come from
        // one build.
        fields =
            [
                ("content-type", type), ("cache-control", "no-cache"), ("etag", tag),
                ("x-content-type-options", "nosniff"),
            ] + others
    }

    /// The tags of `If-None-Match` that count. A browser sends the tag of its one copy.
    static let tagsMax = 64

    /// 200 with the bytes; 304 if `noneMatch`, the value of `If-None-Match`, has the file's tag. The
    /// comparison is weak (RFC 9110, 13.1.2).
    public func answer(noneMatch: String?) -> HTTPResponse {
        let known = (noneMatch ?? "").utf8.split(separator: UInt8(ascii: ","), maxSplits: WebFile.tagsMax)
        let isCurrent = known.prefix(WebFile.tagsMax).contains { text in
            let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
            let word = text.drop(while: isBlank).prefix { !isBlank($0) }
            let known = word.starts(with: "W/".utf8) ? word.dropFirst(2) : word
            return known.elementsEqual(tag.utf8) || known.elementsEqual("*".utf8)
        }
        return HTTPResponse(status: isCurrent ? 304 : 200, fields: fields, body: isCurrent ? [] : body)
    }
}

/// The files for browsers that the program has in itself: the JavaScript client, its worker, and the
/// demonstration page of a development server.
public enum WebClient {
    private static let script = "text/javascript; charset=utf-8"

    /// A page of any origin may import the client: it shows no secret.
    private static let forAll = [
        (name: "access-control-allow-origin", value: "*"),
        (name: "cross-origin-resource-policy", value: "cross-origin"),
    ]

    /// The demonstration page loads nothing from elsewhere and runs no inline script.
    private static let forPage = [
        (
            name: "content-security-policy",
            value: "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
                + " img-src 'self' data:; worker-src 'self'; base-uri 'none'; form-action 'none';"
                + " frame-ancestors 'none'"
        ),
        (name: "referrer-policy", value: "no-referrer"),
        (name: "cross-origin-opener-policy", value: "same-origin"),
    ]

    /// By path. The path of the client has the version of the client's interface.
    private static let client = [
        "/client/v1/messaging.js": PackageResources.messaging_js,
        "/client/v1/messaging-sw.js": PackageResources.messaging_sw_js,
        "/client/v1/messaging/registration.js": PackageResources.registration_js,
        "/client/v1/messaging/server.js": PackageResources.server_js,
        "/client/v1/messaging/storage.js": PackageResources.storage_js,
        "/client/v1/messaging/stream.js": PackageResources.stream_js,
        "/client/v1/messaging/tabs.js": PackageResources.tabs_js,
        "/client/v1/messaging/time.js": PackageResources.time_js,
        "/client/v1/messaging/topics.js": PackageResources.topics_js,
    ].mapValues { WebFile($0, script, fields: forAll) }
    private static let demo = [
        "/": WebFile(PackageResources.demo_html, "text/html; charset=utf-8", fields: forPage),
        "/client/demo.js": WebFile(PackageResources.demo_js, script),
        "/client/demo.css": WebFile(PackageResources.demo_css, "text/css; charset=utf-8"),
    ]

    /// The file at a path without its query; `nil` if there is none. `isDev`: with the demonstration page.
    public static func file(at path: String, isDev: Bool) -> WebFile? {
        client[path] ?? (isDev ? demo[path] : nil)
    }
}
