"""Generates pictures of every format and mode, with the pixels that a correct decoder returns.

Usage: pictures.py <folder> <count> <seed>. Writes one file per picture and `manifest.json`. The expected pixels are those of Pillow,
or are computed here for modes that Pillow reduces or cannot read (16 bits, integers, floats, gamma).
Needs pillow, numpy, tifffile and imagecodecs.
"""
import io
import json
import random
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
rnd = random.Random(seed)
nrnd = np.random.default_rng(seed)


def size():
    return rnd.randint(1, 24), rnd.randint(1, 24)


def samples(h, w, channels, bits=8):
    """Random samples: noise, a gradient, or few levels."""
    top = (1 << bits) - 1
    kind = rnd.choice(['noise', 'gradient', 'levels'])
    if kind == 'gradient':
        base = np.linspace(0, top, h * w).reshape(h, w, 1)
        a = np.concatenate([np.roll(base, 3 * c, 1) for c in range(channels)], 2)
    elif kind == 'levels':
        a = nrnd.integers(0, 4, (h, w, channels)) * (top / 3)
    else:
        a = nrnd.integers(0, top + 1, (h, w, channels))
    return np.round(a).astype(np.uint32 if bits > 16 else np.uint16 if bits > 8 else np.uint8)


def rgba_of(a, bits=8):
    """Eight bits of each channel as floats: gray, gray and alpha, RGB or RGBA."""
    f = a.astype(float) * 255 / ((1 << bits) - 1)
    h, w, c = f.shape
    alpha = f[..., c - 1:] if c in (2, 4) else np.full((h, w, 1), 255.0)
    color = np.repeat(f[..., :1], 3, 2) if c < 3 else f[..., :3]
    return np.concatenate([color, alpha], 2)


def of_pillow(data):
    image = Image.open(io.BytesIO(data))
    return np.asarray(image.convert('RGBA')).astype(float)


def png_chunk(kind, body):
    return struct.pack('>I', len(body)) + kind + body + struct.pack('>I', zlib.crc32(kind + body))


def png_rows(a, depth):
    out = b''
    for row in a:
        flat = row.reshape(-1)
        if depth == 16:
            out += b'\0' + flat.astype('>u2').tobytes()
        elif depth == 8:
            out += b'\0' + flat.astype(np.uint8).tobytes()
        else:
            bits = ''.join(format(int(v), f'0{depth}b') for v in flat)
            bits += '0' * (-len(bits) % 8)
            out += b'\0' + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))
    return out


def png():
    w, h = size()
    color, depths = rnd.choice([(0, [1, 2, 4, 8, 16]), (2, [8, 16]), (3, [1, 2, 4, 8]), (4, [8, 16]), (6, [8, 16])])
    depth = rnd.choice(depths)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    a = samples(h, w, channels, depth)
    chunks, name = b'', f'png color {color} depth {depth}'
    if color == 3:
        n = rnd.randint(1, 1 << depth)
        a = (a % n).astype(np.uint8)
        palette = nrnd.integers(0, 256, (n, 3)).astype(np.uint8)
        expected = np.concatenate([palette[a[..., 0]].astype(float), np.full((h, w, 1), 255.0)], 2)
        chunks += png_chunk(b'PLTE', palette.tobytes())
        if rnd.random() < 0.5:
            alphas = nrnd.integers(0, 256, rnd.randint(1, n)).astype(np.uint8)
            full = np.concatenate([alphas, np.full(n - len(alphas), 255, np.uint8)])
            expected[..., 3] = full[a[..., 0]]
            chunks += png_chunk(b'tRNS', alphas.tobytes())
            name += ' tRNS'
    else:
        expected = rgba_of(a, depth)
        if color in (0, 2) and rnd.random() < 0.4:
            key = a[rnd.randrange(h), rnd.randrange(w)]
            expected[(a == key).all(2), 3] = 0
            chunks += png_chunk(b'tRNS', key.astype('>u2').tobytes())
            name += ' tRNS'
    if rnd.random() < 0.2:
        gamma = rnd.choice([1.0, 0.45455, 1 / 1.8, 0.3])
        chunks = png_chunk(b'gAMA', struct.pack('>I', round(gamma * 100000))) + chunks
        name += f' gamma {gamma:.2f}'
        if abs(gamma - 0.45455) > 0.001:
            linear = (expected[..., :3] / 255) ** (1 / gamma)
            expected[..., :3] = 255 * np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    interlace = rnd.random() < 0.3
    if interlace:
        name += ' interlaced'
        raw = b''
        for x0, y0, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
            part = a[y0::dy, x0::dx]
            if part.size:
                raw += png_rows(part, depth)
    else:
        raw = png_rows(a, depth)
    head = struct.pack('>IIBBBBB', w, h, depth, color, 0, 0, 1 if interlace else 0)
    data = b'\x89PNG\r\n\x1a\n' + png_chunk(b'IHDR', head) + chunks + png_chunk(b'IDAT', zlib.compress(raw)) + png_chunk(b'IEND', b'')
    return name, data, expected, 1.01


def pillow(mode, fmt, name, tolerance=0, **options):
    w, h = size()
    channels = {'1': 1, 'L': 1, 'LA': 2, 'P': 1, 'RGB': 3, 'RGBA': 4, 'CMYK': 4, 'YCbCr': 3, 'LAB': 3, 'RGBX': 4}[mode]
    a = samples(h, w, channels).astype(np.uint8)
    if fmt == 'JPEG' or options.get('lossless') is False:
        # Lossy formats keep only smooth pictures.
        small = Image.fromarray(a[:2, :2, :3] if channels >= 3 else a[:2, :2, 0]).resize((w, h), Image.Resampling.BILINEAR)
        a = np.asarray(small).reshape(h, w, -1)
        if channels == 4:
            a = np.concatenate([a, np.full((h, w, 1), 255 if mode == 'RGBA' else 0, np.uint8)], 2)
    if mode == '1':
        image = Image.fromarray(a[..., 0] > 127)
    elif mode == 'P':
        image = Image.frombytes('P', (w, h), a[..., 0].tobytes())
        image.putpalette(nrnd.integers(0, 256, 768).astype(np.uint8).tobytes())
    else:
        image = Image.frombytes(mode, (w, h), a.tobytes())
    out = io.BytesIO()
    image.save(out, fmt, **options)
    data = out.getvalue()
    return f'{name} {mode} {options}', data, of_pillow(data), tolerance


def jpeg():
    mode = rnd.choice(['L', 'RGB'])
    options = {'quality': rnd.choice([75, 95, 100]), 'progressive': rnd.random() < 0.5}
    if mode == 'RGB':
        options['subsampling'] = rnd.choice([0, 1, 2])
    return pillow(mode, 'JPEG', 'jpeg', 4, **options)


def gif():
    options = {'interlace': rnd.randint(0, 1)}
    if rnd.random() < 0.5:
        options['transparency'] = rnd.randint(0, 255)
    return pillow(rnd.choice(['P', 'L', '1']), 'GIF', 'gif', 0, **options)


def lzw(data, bits):
    """LZW of GIF that clears its table before every code, so that codes never become longer."""
    clear, codes = 1 << bits, []
    for at, value in enumerate(data):
        if at % ((1 << bits) - 2) == 0:
            codes.append(clear)
        codes.append(value)
    codes.append(clear + 1)
    number = sum(code << (i * (bits + 1)) for i, code in enumerate(codes))
    raw = number.to_bytes((len(codes) * (bits + 1) + 7) // 8, 'little')
    return b''.join(bytes([len(raw[i:i + 255])]) + raw[i:i + 255] for i in range(0, len(raw), 255)) + b'\0'


def gif_partial():
    """A first frame that covers a part of the canvas, or reaches beyond it."""
    w, h = size()
    x, y = rnd.randrange(w), rnd.randrange(h)
    fw, fh = rnd.randint(1, w - x), rnd.randint(1, h - y)
    colors = nrnd.integers(0, 256, (16, 3)).astype(np.uint8)
    a = nrnd.integers(0, 16, (fh, fw)).astype(np.uint8)
    transparent = rnd.choice([None, rnd.randrange(16)])
    control = b'' if transparent is None else bytes([0x21, 0xf9, 4, 1, 0, 0, transparent, 0])
    data = (b'GIF89a' + struct.pack('<HHBBB', w, h, 0xf3, rnd.randrange(16), 0) + colors.tobytes() + control + b','
            + struct.pack('<HHHHB', x, y, fw, fh, 0) + bytes([4]) + lzw(a.reshape(-1).tolist(), 4) + b';')
    expected = np.zeros((h, w, 4))
    part = np.concatenate([colors[a].astype(float), np.full((fh, fw, 1), 255.0)], 2)
    if transparent is not None:
        part[a == transparent] = 0
    expected[y:y + fh, x:x + fw] = part
    return f'gif partial transparent {transparent is not None}', data, expected, 0


def webp():
    mode = rnd.choice(['RGB', 'RGBA'])
    if rnd.random() < 0.6:
        return pillow(mode, 'WEBP', 'webp', 0, lossless=True, exact=True)
    return pillow('RGB', 'WEBP', 'webp', 6, lossless=False, quality=95)


def avif():
    return pillow(rnd.choice(['RGB', 'RGBA']), 'AVIF', 'avif', 6, lossless=False, quality=95, subsampling='4:4:4')


def bmp():
    return pillow(rnd.choice(['1', 'L', 'P', 'RGB']), 'BMP', 'bmp')


def bmp_masks():
    """16 or 32 bits with masks, with and without alpha, in the headers of versions 3, 4 and 5."""
    w, h = size()
    bits = rnd.choice([16, 32])
    layout = rnd.choice([(5, 6, 5, 0), (5, 5, 5, 0), (5, 5, 5, 1), (4, 4, 4, 4)] if bits == 16 else [(8, 8, 8, 0), (8, 8, 8, 8), (10, 10, 10, 2)])
    order, at, masks, shifts = rnd.sample(range(4), 4), 0, [0] * 4, [0] * 4
    for c in order:
        shifts[c] = at
        masks[c] = ((1 << layout[c]) - 1) << at
        at += layout[c]
    values = np.stack([nrnd.integers(0, 1 << b, (h, w)) for b in layout], 2)
    pixels = np.zeros((h, w), np.uint64)
    for c in range(4):
        pixels |= values[..., c].astype(np.uint64) << np.uint64(shifts[c])
    expected = np.stack([values[..., c] * 255.0 / ((1 << layout[c]) - 1) if layout[c] else np.full((h, w), 255.0) for c in range(4)], 2)
    header = rnd.choice([108, 124, 56] if layout[3] else [40, 108, 124])
    info = struct.pack('<IiiHHIIiiII', header, w, h, 1, bits, 3, 0, 0, 0, 0, 0)
    info += struct.pack('<III', *masks[:3]) + (struct.pack('<I', masks[3]) if header > 40 else b'')
    if header > 56:
        info += b'BGRs' + b'\0' * (header - 60)
    stride = (w * bits // 8 + 3) // 4 * 4
    rows = b''.join(row.astype('<u2' if bits == 16 else '<u4').tobytes().ljust(stride, b'\0') for row in pixels[::-1])
    data = b'BM' + struct.pack('<IHHI', 14 + len(info) + len(rows), 0, 0, 14 + len(info)) + info + rows
    return f'bmp masks {layout} header {header}', data, expected, 1.01


def tiff_pillow():
    mode = rnd.choice(['1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'RGBX'])
    compression = rnd.choice([None, 'tiff_lzw', 'tiff_adobe_deflate', 'packbits'] + (['group3', 'group4'] if mode == '1' else []))
    return pillow(mode, 'TIFF', 'tiff', 0, compression=compression)


def tiff():
    """Sample types, layouts and photometric interpretations. None: the picture may be refused."""
    w, h = size()
    out = io.BytesIO()
    options = {'compression': rnd.choice([None, 'lzw', 'zlib']), 'byteorder': rnd.choice('<>'), 'bigtiff': rnd.random() < 0.3}
    if rnd.random() < 0.3:
        options['tile'] = (16, 16)
    channels = rnd.choice([1, 1, 3, 4, 2])
    kind = rnd.choice(['u8', 'u16', 'u16', 'u32', 'f16', 'f32', 'f64', 'i8', 'i16', 'i32', 'u64', 'white', 'palette'])
    photometric = 'minisblack' if channels < 3 else 'rgb'
    if channels in (2, 4):
        options['extrasamples'] = [rnd.choice(['unassalpha', 'assocalpha', 'unspecified'])]
    if kind in ('white', 'palette'):
        channels = 1
        options.pop('extrasamples', None)
    bits = {'u16': 16, 'i16': 15, 'u32': 32, 'i32': 31, 'i8': 7}.get(kind, 8)
    a = samples(h, w, channels, bits)
    expected = rgba_of(a, bits)
    if kind == 'white':
        photometric, expected[..., :3] = 'miniswhite', 255 - expected[..., :3]
    elif kind == 'palette':
        photometric = 'palette'
        colors = nrnd.integers(0, 256, (3, 256)).astype(np.uint16)
        options['colormap'] = colors * 257
        expected[..., :3] = colors[:, a[..., 0]].transpose(1, 2, 0)
    elif kind in ('u16', 'i16'):
        a = a.astype(np.uint16 if kind == 'u16' else np.int16)
    elif kind in ('f16', 'f32', 'f64'):
        a = (expected[..., :channels] / 255).astype({'f16': np.float16, 'f32': np.float32, 'f64': np.float64}[kind])
        if channels == 2:
            a[..., 1] = expected[..., 3] / 255
        # Three floats are linear RGB; other floats may be refused.
        if channels == 3:
            linear = a.astype(float)
            expected[..., :3] = 255 * np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
        else:
            expected = None
    elif kind != 'u8':
        a = a.astype({'u32': np.uint32, 'u64': np.uint64, 'i8': np.int8, 'i32': np.int32}[kind])
        expected = expected if kind == 'u32' else None
    extra = options.get('extrasamples', [None])[0]
    if expected is not None and extra == 'unspecified':
        expected[..., 3] = 255
    elif expected is not None and extra == 'assocalpha':
        # The colours are already multiplied by alpha.
        top = (1 << bits) - 1
        a[..., :-1] = np.round(a[..., :-1].astype(float) * a[..., -1:] / top).astype(a.dtype)
        expected[..., :3] = np.where(expected[..., 3:] > 0, np.round(expected[..., :3] * expected[..., 3:] / 255) * 255 / np.maximum(expected[..., 3:], 1e-9), 0)
    if channels >= 3 and rnd.random() < 0.3:
        options['planarconfig'] = 'separate'
        a = a.transpose(2, 0, 1)
    elif channels >= 2:
        options['planarconfig'] = 'contig'
    else:
        a = a[..., 0]
    if options['compression'] in ('lzw', 'zlib') and kind in ('u8', 'u16') and rnd.random() < 0.5:
        options['predictor'] = True
    tifffile.imwrite(out, a, photometric=photometric, metadata=None, **options)
    shown = {k: v for k, v in options.items() if k != 'colormap'}
    return f'tiff {kind} channels {channels} {shown}', out.getvalue(), expected, 1.01


kinds = [png, png, jpeg, gif, gif_partial, webp, avif, bmp, bmp_masks, tiff_pillow, tiff, tiff]
manifest = []
for n in range(count):
    name, data, expected, tolerance = kinds[n % len(kinds)]()
    (folder / f'{n}').write_bytes(data)
    background = rnd.choice([None, rnd.randrange(1 << 24)])
    if background is not None:
        # Rounded to eight bits, and again after the background.
        tolerance = max(tolerance, 2.51 if '16' in name or 'gamma' in name or 'assoc' in name else 1.01)
    entry = {'file': f'{n}', 'name': name, 'tolerance': tolerance, 'background': background, 'width': 0, 'height': 0, 'rgb': None}
    if expected is not None:
        if background is not None:
            back = np.array([background >> 16, background >> 8 & 255, background & 255], float)
            alpha = expected[..., 3:] / 255
            rgb = expected[..., :3] * alpha + back * (1 - alpha)
        else:
            # Without a background, the colour of a fully transparent pixel is only compared where a format defines it.
            rgb = expected[..., :3].copy()
            if not name.startswith(('png', 'webp', 'bmp', 'tiff')):
                rgb[expected[..., 3] == 0] = -1
            if 'assocalpha' in name:
                # Colours under a low alpha have lost their bits.
                rgb[expected[..., 3] < 128] = -1
                entry['tolerance'] = 2.01
        entry.update(width=expected.shape[1], height=expected.shape[0], rgb=[round(float(v), 2) for v in rgb.reshape(-1)])
    manifest.append(entry)
(folder / 'manifest.json').write_text(json.dumps(manifest))
