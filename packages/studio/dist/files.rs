// Written by `npm run build` in packages/studio.
[
    ("index-CoE1yoTk.css", include_bytes!("index-CoE1yoTk.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-BL2bw8al.js", include_bytes!("studio-BL2bw8al.js").as_slice()),
]
