import Model

/// A request's path and query in parts. Percent-encoding is decoded once, after the split at `/`. For example
/// `/v1/projects/shop/messages:send?alt=json` has the segments `v1`, `projects`, `shop` and `messages:send`.
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
        index < count && ends(index, with: text, 0..<text.utf8CodeUnitCount, isWhole: true)
    }

    /// Whether the segment ends with the bytes of `text` in the range, and has no others if `isWhole`.
    func ends(_ index: Int, with text: StaticString, _ range: Range<Int>, isWhole: Bool) -> Bool {
        let end = Int(ends[index])
        let more = end - Int(starts[index]) - range.count
        guard more == 0 || more > 0 && !isWhole else { return false }
        let start = end - range.count
        return bytes.withUnsafeBufferPointer { bytes in
            for offset in 0..<range.count
            where bytes[start + offset] != text.utf8Start[range.lowerBound + offset] { return false }
            return true
        }
    }

    /// A decoded segment; `nil` if its percent-encoding is broken and `lenient` is false. `lenient`: a `%`
    /// that encodes nothing means itself, because one SDK puts topics into the path without encoding.
    func decoded(_ index: Int, lenient: Bool = false) -> [UInt8]? {
        index < count ? Target.decode(segment(index), plus: false, lenient: lenient) : nil
    }

    /// Removes so many bytes from the end of the last segment.
    mutating func dropLast(_ length: Int) {
        if length > 0 { ends[count - 1] -= Int32(length) }
    }

    /// The target with a plain colon before its verb, if the last segment has an encoded colon, as in
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

    /// The name that the text encodes; `nil` if it is none of `names`. Nearly all names come as they are,
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
                if index + 2 < text.endIndex, let high = Hex.value(text[index + 1]),
                    let low = Hex.value(text[index + 2])
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
}
