import CCurl
import Glibc

/// The address that libcurl is about to connect to.
enum DialledAddress {
    /// 4 or 16 bytes in network order; `nil` if the address is neither of IPv4 nor of IPv6.
    static func bytes(_ address: UnsafeMutablePointer<curl_sockaddr>) -> [UInt8]? {
        let field: (offset: Int, count: Int)
        switch address.pointee.family {
        case AF_INET: field = (MemoryLayout<sockaddr_in>.offset(of: \.sin_addr) ?? 4, 4)
        case AF_INET6: field = (MemoryLayout<sockaddr_in6>.offset(of: \.sin6_addr) ?? 8, 16)
        default: return nil
        }
        guard Int(address.pointee.addrlen) >= field.offset + field.count else { return nil }
        // libcurl's `addr` is as long as `addrlen` says, and longer than its type.
        guard let start = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return nil }
        let raw = UnsafeRawPointer(address) + start + field.offset
        return [UInt8](UnsafeRawBufferPointer(start: raw, count: field.count))
    }

    /// The same of an address as text; `nil` if the text is no address.
    static func bytes(text: UnsafePointer<CChar>) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        return inet_pton(AF_INET6, text, &bytes) == 1 ? bytes : nil
    }

    static func text(_ address: UnsafeMutablePointer<curl_sockaddr>) -> String {
        guard var bytes = bytes(address) else { return "of family \(address.pointee.family)" }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        inet_ntop(address.pointee.family, &bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
