import HTTPMessages

/// A request's path and query in parts. Percent-encoding is decoded once, after the split at `/`.
struct Target {
    /// The most segments of a path of the API. A longer path matches none.
    static let segmentsMax = 12

    private let bytes: [UInt8]
    /// Where the encoded segments begin and end. Inline, because each request makes some and must not
    /// allocate for them.
    private var starts = InlineArray<12, Int32>(repeating: 0)
    private var ends = InlineArray<12, Int32>(repeating: 0)
    private(set) var count = 0
    private let queryStart: Int

    init(_ target: [UInt8]) {
        bytes = target
        let mark = target.firstIndex(of: UInt8(ascii: "?")) ?? target.count
        queryStart = min(mark + 1, target.count)
        guard mark > 0, target[0] == UInt8(ascii: "/") else { return }
        var start = 1
        for index in 1...mark where index == mark || target[index] == UInt8(ascii: "/") {
            guard count < Target.segmentsMax else {
                count = 0
                return
            }
            starts[count] = Int32(truncatingIfNeeded: start)
            ends[count] = Int32(truncatingIfNeeded: index)
            count += 1
            start = index + 1
        }
    }

    private var query: ArraySlice<UInt8> { bytes[queryStart...] }

    func segment(_ index: Int) -> ArraySlice<UInt8> { bytes[Int(starts[index])..<Int(ends[index])] }

    func matches(_ index: Int, _ text: StaticString) -> Bool {
        guard index < count, Int(ends[index] - starts[index]) == text.utf8CodeUnitCount else { return false }
        let start = Int(starts[index])
        return bytes.withUnsafeBufferPointer { bytes in
            for offset in 0..<text.utf8CodeUnitCount
            where bytes[start + offset] != text.utf8Start[offset] { return false }
            return true
        }
    }

    /// A decoded segment; `nil` where its percent-encoding is broken and `lenient` is false. `lenient`: a `%`
    /// that encodes nothing stands for itself, because one SDK puts topics into the path without encoding.
    func decoded(_ index: Int, lenient: Bool = false) -> [UInt8]? {
        index < count ? Target.decode(segment(index), plus: false, lenient: lenient) : nil
    }

    /// Whether this is the path of one of the token URIs of `TokenExchange.googleURIs`.
    var isTokenURI: Bool {
        switch count {
        case 1: matches(0, "token")
        case 3:
            matches(0, "oauth2") && (matches(1, "v4") || matches(1, "v3")) && matches(2, "token")
                || matches(0, "o") && matches(1, "oauth2") && matches(2, "token")
        default: false
        }
    }

    /// Removes `:verb` from the end of the last segment, if it is there.
    mutating func takeVerb(_ verb: StaticString) -> Bool {
        guard count > 0 else { return false }
        let last = segment(count - 1)
        guard last.count >= verb.utf8CodeUnitCount else { return false }
        let tail = last.suffix(verb.utf8CodeUnitCount)
        for (offset, byte) in tail.enumerated() where byte != verb.utf8Start[offset] { return false }
        ends[count - 1] -= Int32(verb.utf8CodeUnitCount)
        return true
    }

    /// The target with a plain colon before its verb, where the last segment has an encoded colon, as in
    /// `messages%3Asend`.
    var withPlainColon: Target? {
        guard count > 0 else { return nil }
        let last = segment(count - 1)
        let colon = last.indices.last { index in
            index + 2 < last.endIndex && last[index] == UInt8(ascii: "%")
                && last[index + 1] == UInt8(ascii: "3") && last[index + 2] | 0x20 == UInt8(ascii: "a")
        }
        guard let colon else { return nil }
        var plain = bytes
        plain.replaceSubrange(colon..<(colon + 3), with: [UInt8(ascii: ":")])
        return Target(plain)
    }

    /// The most parameters of a query. SDKs send about three.
    static let parametersMax = Form.fieldsMax

    /// Whether the query has more than `parametersMax` parameters. Each look for one reads them all.
    var hasTooManyParameters: Bool {
        guard query.count > Target.parametersMax else { return false }
        return query.lazy.filter { $0 == UInt8(ascii: "&") }.count >= Target.parametersMax
    }

    /// The last value of a query parameter under any of these names, decoded.
    func parameter(_ names: StaticString...) -> String? {
        var found: ArraySlice<UInt8>?
        var rest = query
        while !rest.isEmpty {
            let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? rest.endIndex
            let pair = rest[..<end]
            rest = rest[end...].dropFirst()
            let equals = pair.firstIndex(of: UInt8(ascii: "=")) ?? pair.endIndex
            if Target.name(pair[..<equals], among: names) != nil { found = pair[equals...].dropFirst() }
        }
        return found.map {
            String(decoding: Target.decode($0, plus: true, lenient: true) ?? [], as: UTF8.self)
        }
    }

    /// The name that the text encodes; `nil` where it is none of `names`. Nearly all names come as they are,
    /// and then this function allocates nothing.
    static func name(_ text: ArraySlice<UInt8>, among names: [StaticString]) -> StaticString? {
        let name = text.withUnsafeBufferPointer { bytes in names.first { Schema.equal(bytes, $0) } }
        guard name == nil, isEncoded(text, plus: true) else { return name }
        let decoded = decode(text, plus: true, lenient: true) ?? []
        return decoded.withUnsafeBufferPointer { bytes in names.first { Schema.equal(bytes, $0) } }
    }

    private static func isEncoded(_ text: ArraySlice<UInt8>, plus: Bool) -> Bool {
        text.contains { $0 == UInt8(ascii: "%") || (plus && $0 == UInt8(ascii: "+")) }
    }

    static func decode(_ text: ArraySlice<UInt8>, plus: Bool, lenient: Bool) -> [UInt8]? {
        guard isEncoded(text, plus: plus) else { return Array(text) }
        var out: [UInt8] = []
        var index = text.startIndex
        while index < text.endIndex {
            let byte = text[index]
            if byte == UInt8(ascii: "%") {
                if index + 2 < text.endIndex, let high = hex(text[index + 1]), let low = hex(text[index + 2])
                {
                    out.append(high << 4 | low)
                    index += 3
                    continue
                }
                guard lenient else { return nil }
            }
            out.append(plus && byte == UInt8(ascii: "+") ? 0x20 : byte)
            index += 1
        }
        return out
    }

    private static func hex(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}
